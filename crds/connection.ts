/** Reaching a VecCluster's engine: addresses, and which Secrets hold the key and the certificate authority. */
import { Type, type Static } from '@sinclair/typebox'
import type { VecCluster } from './cluster.ts'
import { HTTP_PORT, KEY_SECRET_KEY, keySecretName, podHost, serviceHost } from './names.ts'

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
export function hasKey({ apiKey }: VecCluster['spec']): boolean {
  return apiKey !== undefined && (apiKey.autoGenerate || apiKey.secretRef !== undefined)
}

export function connectionOf({ metadata, spec }: VecCluster): Connection {
  const ca = spec.tls.enabled ? spec.tls.secretRef?.name : undefined
  return {
    namespace: metadata.namespace,
    name: metadata.name,
    replicas: spec.replicas,
    tls: spec.tls.enabled,
    ...(hasKey(spec) && { key: { secret: keySecretName(metadata.name), key: KEY_SECRET_KEY } }),
    ...(ca !== undefined && { caSecret: ca }),
  }
}

/** Address of the client Service. */
export function endpointOf({ name, namespace, tls }: Connection): string {
  return `${tls ? 'https' : 'http'}://${serviceHost(name, namespace)}:${HTTP_PORT}`
}

/** Address of one pod. */
export function podEndpointOf({ name, namespace, tls }: Connection, ordinal: number): string {
  return `${tls ? 'https' : 'http'}://${podHost(name, namespace, ordinal)}:${HTTP_PORT}`
}
