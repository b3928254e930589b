/**
 * How to reach a VecCluster's engine: URLs, and the Secrets with the API key and the certificate authority.
 * Also the fields of every plan.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { VecCluster } from '../cluster.ts'
import { API_KEY_SECRET_KEY, apiKeySecretName, HTTP_PORT, podHost, serviceHost } from './names.ts'

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
export function requiresApiKey({ apiKey }: VecCluster['spec']): boolean {
  return apiKey !== undefined && (apiKey.autoGenerate || apiKey.secretRef !== undefined)
}

export function clusterConnection({ metadata, spec }: VecCluster): Connection {
  const ca = spec.tls.enabled ? spec.tls.secretRef?.name : undefined
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    replicas: spec.replicas,
    tls: spec.tls.enabled,
    ...(requiresApiKey(spec) && {
      key: { secret: apiKeySecretName(metadata.name), key: API_KEY_SECRET_KEY },
    }),
    ...(ca !== undefined && { caSecret: ca }),
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
