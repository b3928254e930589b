/**
 * Reads the keys of a VecCluster with `spec.apiKey.rotation`, and asks its nodes which of them they accept.
 * Nodes are asked only while there is more than one key.
 */
import {
  API_KEY_SECRET_KEY,
  apiKeySecretName,
  keysSecretName,
} from '../../../crds/contract/names.ts'
import { keyFingerprint, storedKeys } from '../../../crds/contract/api-keys.ts'
import { clusterConnection } from '../../../crds/contract/connection.ts'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { secretValue, type Secret } from '../../../crds/kubernetes.ts'
import { getCondition, secondsSince, timestamp } from '../../conditions.ts'
import type { BackgroundTasks, TaskResult } from '../../background-task.ts'
import { namespaceCheck } from '../../cross-namespace.ts'
import type { Context } from '../../protocol.ts'
import type { Observed } from '../ports.ts'
import type { FormerTokens, KeyAnswers, KeyPorts, ObservedKeys } from './ports.ts'
import { parseDuration } from '../../../crds/units.ts'
import {
  FOREIGN_KEY,
  KEY_REWRITE_SECONDS,
  desiredKey,
  expiredKey,
  keyOfSpec,
  namedKeys,
} from './rotation.ts'

interface KeyDependencies {
  ports: KeyPorts
  nodeKeys: BackgroundTasks<KeyAnswers>
}

/** What the decision about the keys needs; only whether the key was replaced without `spec.apiKey.rotation`. */
export async function observeKeys(
  observed: Observed,
  { ports, nodeKeys }: KeyDependencies,
  { now, settings }: Context,
): Promise<Pick<Observed, 'keys' | 'keysFailure' | 'keysResyncSeconds' | 'isKeyReplaced'>> {
  const { metadata, spec, status } = observed.cluster
  if (spec.apiKey?.rotation === undefined) {
    return (await isKeyReplaced(observed, ports, now)) ? { isKeyReplaced: true } : {}
  }
  const overlapSeconds = parseDuration(spec.apiKey.rotation.overlap)
  const cached = await readKeys(observed, ports.secret.bind(ports))
  if (!isRotating(observed, cached)) return { keys: { overlapSeconds, ...cached } }
  // A helm run writes the Secrets, and a minute later its successor must not be decided by the former ones.
  const read = await readKeys(observed, ports.liveSecret.bind(ports))
  const keys: ObservedKeys = { overlapSeconds, ...read }
  const expired = expiredKey(status?.keyRotation, overlapSeconds, now)
  if (expired !== undefined) {
    const list = () =>
      ports.tokensSignedWith(metadata, expired, namespaceCheck(observed.cluster, settings))
    keys.formerTokens = await unknownIfForbidden(list)
  }
  const asked = await askNodes(observed, read, { ports, nodeKeys }, now)
  const { value, failure, requeueAfterSeconds } = asked
  // Pods may have started again since the answers before the failure: no step follows from them.
  if (value !== undefined && failure === undefined) keys.answers = value
  return {
    keys,
    ...(failure !== undefined && { keysFailure: failure }),
    ...(requeueAfterSeconds !== undefined && { keysResyncSeconds: requeueAfterSeconds }),
  }
}

/**
 * Whether clients and new pods read another key than the helm run has published, and the spec names the right
 * one. A generated key is in no other Secret: there a helm run would take over what it finds.
 */
async function isKeyReplaced(observed: Observed, ports: KeyPorts, now: Date): Promise<boolean> {
  const { namespace, name } = observed.cluster.metadata
  const applied = observed.progress?.applied
  const desired = desiredKey(observed)
  if (applied?.publishedKey === undefined || desired === undefined) return false
  if (secondsSince(applied.at, now) < KEY_REWRITE_SECONDS) return false
  const isOurs = (secret: Secret | undefined) => {
    const key = secretValue(secret, API_KEY_SECRET_KEY)
    return key ? [applied.publishedKey, desired].includes(keyFingerprint(key)) : false
  }
  if (isOurs(await ports.secret(namespace, apiKeySecretName(name)))) return false
  // A helm run may have written the Secret since it was cached.
  return !isOurs(await ports.liveSecret(namespace, apiKeySecretName(name)))
}

/** Without permission to list them, the former key is kept. */
async function unknownIfForbidden(list: () => Promise<string[]>): Promise<FormerTokens> {
  try {
    return await list()
  } catch (error) {
    if (error instanceof KubernetesError) return 'unknown'
    throw error
  }
}

/** Keys by fingerprint: what the Secrets have, and the key that the spec names. */
interface ReadKeys extends Pick<ObservedKeys, 'published' | 'publishedVersion' | 'stored'> {
  values: ReadonlyMap<string, string>
}

async function readKeys(
  { cluster, secrets }: Observed,
  read: KeyPorts['secret'],
): Promise<ReadKeys> {
  const { namespace, name } = cluster.metadata
  const [publishedSecret, ownSecret] = await Promise.all([
    read(namespace, apiKeySecretName(name)),
    read(namespace, keysSecretName(name)),
  ])
  const published = secretValue(publishedSecret, API_KEY_SECRET_KEY)
  const desired = keyOfSpec({ cluster, secrets })
  const stored = storedKeys(ownSecret)
  const values = new Map(stored)
  for (const key of [published, desired]) if (key) values.set(keyFingerprint(key), key)
  const version = publishedSecret?.metadata.resourceVersion
  return {
    ...{ stored, values },
    ...(published && { published: keyFingerprint(published) }),
    ...(published && version !== undefined && { publishedVersion: version }),
  }
}

/**
 * There is more than one key, or was until nodes have accepted the published one again, or the Secret of the
 * operator does not have what a helm run has put there.
 */
function isRotating(observed: Observed, { published, stored }: ReadKeys): boolean {
  const applied = observed.progress?.applied?.keys
  if (applied !== undefined && !stored.has(applied.published)) return true
  if (getCondition(observed.cluster, 'KeyRotated')?.reason === FOREIGN_KEY) return true
  const desired = desiredKey(observed) ?? published
  const keys = new Set([published, desired, ...stored.keys(), ...namedKeys(observed)])
  return keys.size > 1
}

async function askNodes(
  { cluster, statefulSet }: Observed,
  { values }: ReadKeys,
  { ports, nodeKeys }: KeyDependencies,
  now: Date,
): Promise<TaskResult<KeyAnswers>> {
  const replicas = statefulSet?.spec.replicas ?? 0
  const { uid } = cluster.metadata
  const asked = [...values.keys()].toSorted()
  const isCurrent = (answers: KeyAnswers) =>
    answers.asked.join() === asked.join() && answers.nodes.length === replicas
  const latest = nodeKeys.latest(uid)
  // Before the first answer, nodes that are slow to give it are not asked again by each pass.
  if (latest !== undefined && !isCurrent(latest)) await nodeKeys.abort(uid)
  if (replicas === 0) return {}
  const connection = { ...clusterConnection(cluster), replicas }
  return nodeKeys.run(uid, now, async (signal) => ({
    ...{ asked, at: timestamp(now) },
    nodes: await ports.nodeKeys(connection, values, signal),
  }))
}
