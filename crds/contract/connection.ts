/**
 * How to reach a VecCluster's engine: URLs, and the Secrets with the API key and the certificate authority.
 * Also the fields of every plan.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { VecCluster } from '../cluster.ts'
import { ObjectName, SecretKeyRef } from '../schema.ts'
import {
  ANNOTATIONS,
  API_KEY_SECRET_KEY,
  apiKeySecretName,
  HTTP_PORT,
  podHost,
  serviceHost,
} from './names.ts'

/** Everything needed to call a cluster's engine, except the content of its Secrets. */
export const Connection = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  replicas: Type.Integer(),
  tls: Type.Boolean(),
  /** Secret with the API key that the pods use; absent when the engine requires none. */
  key: Type.Optional(Type.Object({ secret: Type.String(), key: Type.String() })),
  /** Secret that may contain `ca.crt`. */
  caSecret: Type.Optional(Type.String()),
})
export type Connection = Static<typeof Connection>

/** Whether the engine requires an API key. */
export function requiresApiKey({ apiKey }: Pick<VecCluster['spec'], 'apiKey'>): boolean {
  return isKeySet(apiKey)
}

/** Whether the nodes get this key: spec.apiKey or spec.readOnlyApiKey. */
export function isKeySet(key: { autoGenerate: boolean; secretRef?: object } | undefined): boolean {
  return key !== undefined && (key.autoGenerate || key.secretRef !== undefined)
}

export function clusterConnection(cluster: VecCluster): Connection {
  const { metadata, spec } = cluster
  const access = accessOf(cluster)
  const ca = access.tls.enabled ? access.tls.secretRef?.name : undefined
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    replicas: spec.replicas,
    tls: access.tls.enabled,
    ...(requiresApiKey(access) && {
      key: { secret: apiKeySecretName(metadata.name), key: API_KEY_SECRET_KEY },
    }),
    ...(ca !== undefined && { caSecret: ca }),
  }
}

/** The fields of a spec that decide how the engine is called. */
const Access = Type.Object({
  tls: Type.Object({
    enabled: Type.Boolean(),
    secretRef: Type.Optional(Type.Object({ name: ObjectName() })),
  }),
  apiKey: Type.Optional(
    Type.Object({
      autoGenerate: Type.Boolean(),
      jwtRbac: Type.Boolean(),
      secretRef: Type.Optional(SecretKeyRef),
    }),
  ),
})
type Access = Static<typeof Access>

/**
 * What the nodes have: a change of the spec may be refused, or wait for days for a maintenance window. Until a helm run
 * has applied it, the spec that was applied last counts.
 */
function accessOf({ metadata, spec, status }: VecCluster): Access {
  const applied = metadata.annotations?.[ANNOTATIONS.lastAppliedSpec]
  const isPending = status?.appliedGeneration !== metadata.generation
  const former = isPending && applied !== undefined ? parseAccess(applied) : undefined
  return former ?? spec
}

/** A user may have changed the annotation. */
function parseAccess(text: string): Access | undefined {
  try {
    const parsed: unknown = JSON.parse(text)
    return Value.Check(Access, parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

/** URL of the client Service, in a Kubernetes cluster with this DNS domain. */
export function serviceUrl(connection: Connection, domain: string): string {
  return `${scheme(connection)}://${serviceHost(connection, domain)}:${HTTP_PORT}`
}

/** URL of one pod. */
export function podUrl(connection: Connection, ordinal: number, domain: string): string {
  return `${scheme(connection)}://${podHost(connection, ordinal, domain)}:${HTTP_PORT}`
}

function scheme({ tls }: Connection): 'http' | 'https' {
  return tls ? 'https' : 'http'
}

/** The fields of every plan: the resource to work for, and the number of the run. */
export const planFields = {
  /** Plural of the resource's kind. */
  resource: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  uid: Type.String(),
  /** Sequence number of this Job among the Jobs of its resource. */
  run: Type.Integer({ minimum: 1 }),
  /** Hash of the desired state: a plan with the same hash need not run again. */
  hash: Type.String(),
}
