/**
 * The Secret of the operator with the API keys that nodes accept (crds/contract/api-keys.ts). A helm run
 * writes the keys of its plan before helm needs them, from wherever their values are. None is removed here:
 * a node may restart with the template that it had.
 */
import { Value } from '@sinclair/typebox/value'
import { parseAllDocuments } from 'yaml'
import {
  keyEntry,
  keyFingerprint,
  KEYS_SECRET_TYPE,
  type PlannedKeys,
  storedKeys,
  templateKeys,
} from '../../crds/contract/api-keys.ts'
import type { UpgradePlan } from '../../crds/contract/job.ts'
import {
  API_KEY_SECRET_KEY,
  API_VERSION,
  apiKeySecretName,
  keysSecretName,
  LABELS,
  MANAGED_BY,
  SECRET_CHECKSUM,
} from '../../crds/contract/names.ts'
import { isOwnedBy, Secret, secretValue, type StatefulSet } from '../../crds/kubernetes.ts'
import { secrets } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'

/** The keys are others than when the run was planned: the attempt ends, and the next one has its own plan. */
export class KeysChanged extends Error {
  readonly code = 'KeysChanged'
}

/** Entry of the chart in `vec-<name>-apikey`. */
const READ_ONLY_KEY = 'read-only-api-key'

type Tools = Pick<Dependencies, 'kubernetes' | 'log'>

/**
 * Stores the keys that this run needs. Throws KeysChanged if a key, or the template of the pods, is not what was
 * planned for.
 */
export async function storeKeys(
  { namespace, name, uid }: Pick<UpgradePlan, 'namespace' | 'name' | 'uid'>,
  keys: PlannedKeys,
  live: Pick<StatefulSet, 'spec'> | undefined,
  { kubernetes, log }: Tools,
): Promise<void> {
  const read = (secret: string) => kubernetes.get(secrets(namespace), secret, Secret)
  const ownName = keysSecretName(name)
  const [published, source, own] = await Promise.all([
    read(apiKeySecretName(name)),
    keys.source && read(keys.source.name),
    read(ownName),
  ])
  const publishedKey = keyIn(published, API_KEY_SECRET_KEY)
  const stored = storedKeys(own)
  if (publishedKey !== undefined) {
    const former = keyFingerprint(publishedKey)
    checkPublished(former, name, keys)
    // A key of another writer was never one of the nodes: no client loses it.
    if (stored.has(former) || keys.accepted.includes(former)) checkTemplate(former, keys, live)
  }
  if (own !== undefined && (own.type !== KEYS_SECRET_TYPE || !isOwnedBy(own, uid))) {
    const problem = 'already exists and was not created for this VecCluster: delete it'
    throw new KeysChanged(`Secret ${ownName} ${problem}`)
  }
  const known = storedKeys(own)
  for (const key of [publishedKey, keys.source && keyIn(source, keys.source.key)]) {
    if (key !== undefined) known.set(keyFingerprint(key), key)
  }
  const missing = new Map<string, string>()
  for (const fingerprint of new Set([keys.published, ...keys.accepted])) {
    const key = known.get(fingerprint)
    if (key === undefined) {
      // Pods that run have it until they lose it, and one that starts does without.
      if (fingerprint === keys.former && templateKeys(live).includes(fingerprint)) continue
      throw new KeysChanged(`the key ${fingerprint} is in no Secret any more`)
    }
    if (!stored.has(fingerprint)) missing.set(fingerprint, key)
  }
  if (own !== undefined && missing.size === 0) return
  const data = Object.fromEntries(
    [...missing].map(([fingerprint, key]) => [
      keyEntry(fingerprint),
      Buffer.from(key).toString('base64'),
    ]),
  )
  log.info({ secret: ownName, keys: [...missing.keys()] }, 'storing keys')
  if (own !== undefined) {
    await kubernetes.patch(secrets(namespace), ownName, { data })
    return
  }
  await kubernetes.create(secrets(namespace), {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: ownName,
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    type: KEYS_SECRET_TYPE,
    data,
  })
}

/**
 * Throws KeysChanged if a Secret that helm is to read has no key any more: helm would succeed, and the nodes would start
 * without authentication. A rotated key is read from the Secret of the operator.
 */
export async function checkKeySources(
  { namespace, spec, keys }: Pick<UpgradePlan, 'namespace' | 'spec' | 'keys'>,
  { kubernetes }: Pick<Tools, 'kubernetes'>,
): Promise<void> {
  const { apiKey, readOnlyApiKey } = spec
  const read = { ...(keys === undefined && { apiKey }), readOnlyApiKey }
  for (const [field, source] of Object.entries(read)) {
    if (source?.secretRef === undefined) continue
    const { name, key } = source.secretRef
    if (keyIn(await kubernetes.get(secrets(namespace), name, Secret), key) !== undefined) continue
    throw new KeysChanged(`spec.${field}.secretRef: Secret ${name} has no key ${key} any more`)
  }
}

/**
 * Creates `vec-<name>-apikey` as the last revision of the release has it, if another client has deleted it. The chart
 * would generate another key, which neither clients nor the nodes have.
 */
export async function restoreGeneratedKeys(
  plan: Pick<UpgradePlan, 'namespace' | 'name' | 'release' | 'spec' | 'keys'>,
  { helm, kubernetes, log, signal }: Tools & Pick<Dependencies, 'helm' | 'signal'>,
): Promise<void> {
  const { namespace, name, release, spec, keys } = plan
  // A rotated key is not one of the chart.
  const ofChart = [keys === undefined ? spec.apiKey : undefined, spec.readOnlyApiKey]
  if (!ofChart.some((key) => key?.autoGenerate === true)) return
  const secret = apiKeySecretName(name)
  if ((await kubernetes.get(secrets(namespace), secret, Secret)) !== undefined) return
  const rendered = parseAllDocuments((await helm.manifest(release, namespace, signal)) ?? '')
    .map((document) => document.toJS() as unknown)
    .filter((object) => Value.Check(Secret, object))
    .find(({ metadata }) => metadata.name === secret)
  if (rendered === undefined) return
  const { apiVersion, kind, metadata, data: all = {} } = rendered
  // The Secret has a rotated key only once the nodes accept it, and the chart looks the other one up.
  const readOnly = all[READ_ONLY_KEY]
  const data =
    keys === undefined ? all : { ...(readOnly !== undefined && { [READ_ONLY_KEY]: readOnly }) }
  log.info({ secret }, 'creating the deleted Secret with the generated keys')
  await kubernetes.create(secrets(namespace), {
    apiVersion,
    kind,
    metadata: {
      name: secret,
      namespace,
      labels: { ...metadata.labels, 'app.kubernetes.io/managed-by': 'Helm' },
      annotations: {
        ...metadata.annotations,
        'meta.helm.sh/release-name': release,
        'meta.helm.sh/release-namespace': namespace,
      },
    },
    data,
  })
}

/** Fingerprint of the key that the run has published: the planned one, or the one that the chart has written. */
export async function publishedKey(
  { namespace, name, keys }: Pick<UpgradePlan, 'namespace' | 'name' | 'keys'>,
  { kubernetes }: Pick<Tools, 'kubernetes'>,
): Promise<string> {
  if (keys !== undefined) return keys.published
  const secret = await kubernetes.get(secrets(namespace), apiKeySecretName(name), Secret)
  const key = keyIn(secret, API_KEY_SECRET_KEY)
  // Otherwise the run would count as applied, and none would follow once the Secret is there again.
  if (key === undefined) {
    throw new KeysChanged(`Secret ${apiKeySecretName(name)} has no key after the helm run`)
  }
  return keyFingerprint(key)
}

/** Removes the Secret of a cluster whose keys are no longer rotated by the operator. */
export async function removeKeys(
  { namespace, name, uid }: Pick<UpgradePlan, 'namespace' | 'name' | 'uid'>,
  { kubernetes }: Tools,
): Promise<void> {
  const own = await kubernetes.get(secrets(namespace), keysSecretName(name), Secret)
  if (own?.type !== KEYS_SECRET_TYPE || !isOwnedBy(own, uid)) return
  const { uid: secretUid } = own.metadata
  await kubernetes.delete(
    secrets(namespace),
    own.metadata.name,
    secretUid === undefined ? {} : { uid: secretUid },
  )
}

/**
 * The checksum of `vec-<name>-apikey` that the pods have: with it, their template stays the same while
 * that Secret changes. Undefined if pods have to be restarted for the change.
 */
export function unchangedChecksum(
  keys: PlannedKeys | undefined,
  live: Pick<StatefulSet, 'spec'>,
): string | undefined {
  if (keys?.keepsPods !== true) return undefined
  // The plan was made for this template.
  if (templateKeys(live).join() !== keys.accepted.join()) return undefined
  return secretChecksum(live)
}

/**
 * The same for a run that only creates deleted objects again. The chart gives the install of a generated key another
 * checksum than all later runs.
 */
export async function repeatedChecksum(
  {
    namespace,
    name,
    keys,
    recreatesObjects,
    appliedKey,
  }: Pick<UpgradePlan, 'namespace' | 'name' | 'keys' | 'recreatesObjects' | 'appliedKey'>,
  live: Pick<StatefulSet, 'spec'>,
  { kubernetes }: Pick<Tools, 'kubernetes'>,
): Promise<string | undefined> {
  if (keys !== undefined || recreatesObjects !== true || appliedKey === undefined) return undefined
  const secret = await kubernetes.get(secrets(namespace), apiKeySecretName(name), Secret)
  const key = keyIn(secret, API_KEY_SECRET_KEY)
  // Another client may have replaced the key, and nodes have to restart for that one.
  if (key === undefined || keyFingerprint(key) !== appliedKey) return undefined
  return secretChecksum(live)
}

function secretChecksum({ spec }: Pick<StatefulSet, 'spec'>): string | undefined {
  return spec.template?.metadata?.annotations?.[SECRET_CHECKSUM]
}

/** Another run may have published another key since the plan was made: clients have it already. */
function checkPublished(live: string, name: string, { published, replaces }: PlannedKeys): void {
  if (live === published || live === replaces) return
  throw new KeysChanged(
    `Secret ${apiKeySecretName(name)} has another key than when this run was planned`,
  )
}

/**
 * A key is published in addition to another one only while the pods get both: a run that was killed may have
 * taken one from the template since the plan was made.
 */
function checkTemplate(
  former: string,
  { published, accepted }: PlannedKeys,
  live: Pick<StatefulSet, 'spec'> | undefined,
): void {
  if (former === published || accepted.length === 1) return
  const named = templateKeys(live)
  if (accepted.every((key) => named.includes(key))) return
  throw new KeysChanged('the pods get other keys than when this run was planned')
}

/** An empty value is no key. */
function keyIn(secret: Secret | undefined, entry: string): string | undefined {
  return secretValue(secret, entry) || undefined
}
