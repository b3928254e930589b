/** Implements the ports of the rotation of API keys: Secrets, calls to nodes with each key, tokens. */
import { Type, type Static } from '@sinclair/typebox'
import { VecAccessKey } from '../../crds/access-key.ts'
import { KEYS_SECRET_TYPE, keyEntry } from '../../crds/contract/api-keys.ts'
import type { Connection } from '../../crds/contract/connection.ts'
import { EngineError, keyRejection, UnreadableNamespace } from '../../crds/contract/errors.ts'
import { keysSecretName } from '../../crds/contract/names.ts'
import { AnyObject, Secret } from '../../crds/kubernetes.ts'
import type { KeyPorts, NodeKeys } from '../../hooks/cluster/keys/ports.ts'
import { Engine } from '../../jobs/clients/engine/client.ts'
import { secretEngineCredentials } from '../../jobs/clients/engine/credentials.ts'
import { accessKeys, inNamespaces, secrets } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { createOrReplace, listOrEmpty, listReadable } from './common.ts'
import { engineTransport, type EngineDependencies } from './engine-client.ts'

export interface KeyDependencies {
  kubernetes: Kubernetes
  secret: KeyPorts['secret']
  /** Namespaces that the service may read; an empty list means all. */
  namespaces: string[]
}

/** Ends a call to a node that does not answer. */
const CALL_TIMEOUT_MS = 5_000

/** Only the fields that name the cluster and the key, of resources of any CRD version. */
const { clusterRef } = VecAccessKey.schema.properties.spec.properties
const SignedToken = Type.Object({
  ...AnyObject.properties,
  spec: Type.Object({ clusterRef }),
  status: Type.Optional(
    Type.Object({
      phase: Type.Optional(Type.String()),
      keyFingerprint: Type.Optional(Type.String()),
    }),
  ),
})
type SignedToken = Static<typeof SignedToken>

export function keyPorts({
  kubernetes,
  secret,
  namespaces,
}: KeyDependencies): Omit<KeyPorts, 'nodeKeys'> {
  const liveSecret = (namespace: string, name: string) =>
    kubernetes.get(secrets(namespace), name, Secret)
  return {
    secret,
    liveSecret,
    async tokensSignedWith(cluster, fingerprint, isAllowed) {
      const isSignedWith = ({ metadata, spec, status }: SignedToken) => {
        const { name, namespace = metadata.namespace } = spec.clusterRef
        const isOfCluster = name === cluster.name && namespace === cluster.namespace
        // Another one is not renewed.
        const isRenewed = status?.phase === 'Ready' && metadata.deletionTimestamp === undefined
        return isOfCluster && isRenewed && status.keyFingerprint === fingerprint
      }
      const { found, unreadable } = await listReadable(
        inNamespaces(accessKeys, namespaces),
        (resource) =>
          listOrEmpty(kubernetes, [resource], {
            schema: SignedToken,
            pick(token) {
              const { namespace = '', name } = token.metadata
              const counts = isAllowed(namespace) && isSignedWith(token)
              return counts ? `${namespace}/${name}` : undefined
            },
          }),
      )
      const unknown = unreadable.find(isAllowed)
      if (unknown !== undefined) throw new UnreadableNamespace(unknown)
      return found.toSorted()
    },
    async keepKeys({ namespace, name }, fingerprints) {
      const found = await liveSecret(namespace, keysSecretName(name))
      if (found?.type !== KEYS_SECRET_TYPE) return
      const retained = fingerprints.map(keyEntry)
      const data = Object.fromEntries(
        Object.entries(found.data ?? {}).filter(([entry]) => retained.includes(entry)),
      )
      const replaced = { ...found, data }
      await createOrReplace(kubernetes, secrets(namespace), replaced)
    },
  }
}

/** Calls with one key only: whether this key is accepted is the question. */
export function nodeKeysPort(
  dependencies: EngineDependencies,
  timeoutMs = CALL_TIMEOUT_MS,
): KeyPorts['nodeKeys'] {
  return (connection, keys, signal) =>
    Promise.all(
      Array.from({ length: connection.replicas }, async (_, ordinal): Promise<NodeKeys> => {
        const accepts: string[] = []
        for (const [fingerprint, key] of keys) {
          const limit = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)])
          const isAccepted = await acceptsKey(dependencies, { connection, ordinal, key }, limit)
          signal.throwIfAborted()
          if (isAccepted === undefined) return { ordinal }
          if (isAccepted) accepts.push(fingerprint)
        }
        return { ordinal, accepts }
      }),
    )
}

/** Undefined if the node does not answer. */
async function acceptsKey(
  dependencies: EngineDependencies,
  { connection, ordinal, key }: { connection: Connection; ordinal: number; key: string },
  signal: AbortSignal,
): Promise<boolean | undefined> {
  const engine = new Engine({
    transport: engineTransport(dependencies, connection, ordinal),
    credentials: async () => ({
      ...(await secretEngineCredentials(connection, dependencies.secret)),
      key,
    }),
    log: dependencies.log,
  })
  try {
    await engine.cluster(signal)
    return true
  } catch (error) {
    if (error instanceof EngineError) return keyRejection(error) === undefined ? undefined : false
    // The node did not answer in time.
    if (error === signal.reason) return undefined
    throw error
  }
}
