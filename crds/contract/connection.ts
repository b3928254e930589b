/** Reaching a VecCluster's engine: addresses, and which Secrets hold the key and the certificate authority. */
import { Type, type Static } from '@sinclair/typebox'
import type { VecCluster } from '../cluster.ts'
import { API_KEY_SECRET_KEY, apiKeySecretName, HTTP_PORT, podHost, serviceHost } from './names.ts'

/** All that is needed to call a cluster's engine, besides the content of its Secrets. */
export const Connection = Type.Object({
  namespace: Type.String(),
  name: Type.String(),
  replicas: Type.Integer(),
  tls: Type.Boolean(),
  /** Secret with the key the pods run; absent when the engine is open. */
  key: Type.Optional(Type.Object({ secret: Type.String(), key: Type.String() })),
  /** Secret that may hold `ca.crt`. */
  caSecret: Type.Optional(Type.String()),
})
export type Connection = Static<typeof Connection>

/** Whether the engine asks for a key. */
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

/** Address of the client Service. */
export function serviceUrl({ name, namespace, tls }: Connection): string {
  return `${tls ? 'https' : 'http'}://${serviceHost(name, namespace)}:${HTTP_PORT}`
}

/** Address of one pod. */
export function podUrl({ name, namespace, tls }: Connection, ordinal: number): string {
  return `${tls ? 'https' : 'http'}://${podHost(name, namespace, ordinal)}:${HTTP_PORT}`
}

/** What every plan says: whom to work for, and which run this is. */
export const planFields = {
  /** Plural of the resource's kind. */
  resource: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  uid: Type.String(),
  /** Number of this Job among those of its resource. */
  run: Type.Integer({ minimum: 1 }),
  /** Hash of what is wanted: a plan with the same hash need not run again. */
  hash: Type.String(),
}
