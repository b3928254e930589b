/**
 * `backup verify s3://bucket/prefix/name`: proves a backup from the bucket alone. The manifest is read
 * and checked, every object of it is read to its last byte, and its size and SHA-256 are compared.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { Rejected, StorageError } from '../../crds/errors.ts'
import { manifestKey, ownerKey } from '../../crds/layout.ts'
import { MANIFEST_VERSION, isByShard } from '../../crds/manifest.ts'
import { checkedManifest, checkedPlainManifest, isPlain } from '../../crds/rules/manifest.ts'
import { humanSize } from '../../crds/size.ts'
import { ownerOf, type Owner } from '../backup/owner.ts'
import { wordsOf } from '../clients/call.ts'
import type { Bucket } from '../clients/s3.ts'
import { portrayed } from '../restore/portrayed.ts'
import type { NodeSource, Source, SourceSnapshot } from '../restore/wanted.ts'
import { Complaint, ENDS, isOn, textOf, type PeopleCall, type PeopleCommand } from './command.ts'

export const backupVerify: PeopleCommand = {
  name: 'backup verify',
  operands: 's3://<bucket>/<prefix>/<name>',
  takes: { least: 1, most: 1 },
  summary: 'prove a backup from its bucket alone: every object is read to its last byte',
  details: [
    'Ends with 1 unless every collection that the backup was to hold is whole, also for a backup that failed; --collections asks for less.',
    'Credentials come from the environment: CLOUD_ACCESS_KEY_ID and CLOUD_SECRET_ACCESS_KEY, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for temporary ones also CLOUD_SESSION_TOKEN or AWS_SESSION_TOKEN. What is found is logged, a line for each object: LOG_FORMAT is text or json.',
  ],
  flags: {
    endpoint: { type: 'string', value: 'URL', says: 'of an S3-compatible store' },
    region: { type: 'string', value: 'REGION', default: 'us-east-1', says: 'default: us-east-1' },
    'path-style': { type: 'boolean', says: 'the bucket stands in the path' },
    ca: { type: 'string', value: 'FILE', says: 'certificate authority of the store, PEM' },
    'sizes-only': { type: 'boolean', says: 'compare sizes, and read no object' },
    collections: {
      type: 'string',
      value: 'NAMES',
      says: 'check only these, separated by commas',
    },
  },
  run: verify,
}

const READ_ATTEMPTS = 3
/** Names in a message. */
const MAX_LISTED = 10

async function verify(call: PeopleCall): Promise<number> {
  const [target = ''] = call.operands
  try {
    const { bucket, folder } = await openBucket(target, call)
    try {
      const { log, signal } = call
      return await verifyFolder(bucket, folder, {
        log,
        signal,
        sizesOnly: isOn(call, 'sizes-only'),
        chosen: chosenIn(call),
      })
    } finally {
      bucket.close()
    }
  } catch (error) {
    if (!(error instanceof Rejected || error instanceof StorageError)) throw error
    call.log.error({ backup: target }, error.message)
    return ENDS.wrong
  }
}

interface Check {
  log: Logger
  signal: AbortSignal
  sizesOnly: boolean
  /** Names of the collections to check; undefined: all that the backup was to hold. */
  chosen: ReadonlySet<string> | undefined
}

/** Logs a line for each object and a last one for all; answers with the exit code. */
async function verifyFolder(bucket: Bucket, folder: string, check: Check): Promise<number> {
  const { manifest, missing } = await readManifest(bucket, folder, check)
  const problems = missing.map(
    (name) =>
      `collection ${name} is not in this backup: it failed, or was deleted during the backup`,
  )
  for (const problem of problems) check.log.error(problem)
  let bytes = 0
  for (const collection of manifest.collections) {
    for (const snapshot of collection.snapshots) {
      check.signal.throwIfAborted()
      const problem = await problemOf(bucket, folder, snapshot, check)
      const shard = 'shardId' in snapshot ? { shard: snapshot.shardId } : {}
      const fields = { collection: collection.name, node: snapshot.nodeIndex, ...shard }
      if (problem === undefined) {
        bytes += snapshot.sizeBytes
        check.log.info({ ...fields, bytes: snapshot.sizeBytes }, `ok ${snapshot.key}`)
      } else {
        problems.push(problem)
        check.log.error({ ...fields }, problem)
      }
    }
  }
  return report(manifest, problems, bytes, check)
}

function report(manifest: Source, problems: string[], bytes: number, check: Check): number {
  const objects = manifest.collections.reduce((sum, { snapshots }) => sum + snapshots.length, 0)
  const fields = {
    backup: manifest.backupName,
    cluster: `${manifest.cluster.namespace}/${manifest.cluster.name}`,
    createdAt: manifest.createdAt,
    engineVersion: manifest.engineVersion,
    nodes: manifest.nodeCount,
    collections: manifest.collections.length,
    points: manifest.collections.reduce((sum, { pointsCount = 0 }) => sum + pointsCount, 0),
  }
  if (problems.length > 0) {
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`
    check.log.error(fields, `this backup is not whole: ${count}`)
    return ENDS.wrong
  }
  const bare = snapshotsOf(manifest).filter(({ sha256 }) => sha256 === undefined).length
  if (bare > 0 && !check.sizesOnly) {
    const what = 'only sizes and the headers of their archives were compared'
    check.log.warn(fields, `${bare} objects have no checksum in the manifest: ${what}`)
  }
  const how = check.sizesOnly || bare > 0 ? 'have the right size' : 'are whole'
  check.log.info(fields, `all ${objects} objects ${how}: ${humanSize(bytes)}`)
  return ENDS.fine
}

function snapshotsOf({ collections }: Source): SourceSnapshot[] {
  return collections.flatMap(({ snapshots }): readonly SourceSnapshot[] => snapshots)
}

interface Found {
  /** With the chosen collections only. */
  manifest: Source
  /** Chosen collections that it does not hold. */
  missing: string[]
}

async function readManifest(bucket: Bucket, folder: string, check: Check): Promise<Found> {
  const key = manifestKey(folder)
  const found = await bucket.getJson(key, check.signal)
  if (found === undefined) {
    const why = 'the backup was not finished, or its folder is another'
    throw new Rejected(`there is no s3://${bucket.name}/${key}: ${why}`)
  }
  if (isPlain(found)) return readPlain(found, bucket, folder, check)
  const manifest = checkedManifest(found)
  if (manifest.manifestSha256 === undefined) {
    check.log.warn(
      { key },
      'written by an earlier release without a checksum of itself: its own fields cannot be proved',
    )
  }
  const owner = await ownerOf(bucket, folder, check.signal)
  if (owner?.uid !== manifest.uid) {
    throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} is not that of this manifest`)
  }
  if (!isByShard(manifest)) {
    for (const collection of manifest.collections) warnOfEmptyNodes(collection, check.log)
  }
  return choose(manifest, owner, check)
}

/** Of another program: nothing in the bucket says what it was to hold. */
async function readPlain(
  value: unknown,
  bucket: Bucket,
  folder: string,
  check: Check,
): Promise<Found> {
  const { collections, ...manifest } = checkedPlainManifest(value)
  const owner = await ownerOf(bucket, folder, check.signal)
  if (owner !== undefined) {
    throw new Rejected(
      `manifest.json has no manifestVersion, but the folder is that of VecBackup ${owner.namespace}/${owner.name}: it was changed after it was written`,
    )
  }
  check.log.warn(
    { key: manifestKey(folder) },
    'written by another program: whether collections are missing in it cannot be told',
  )
  const named = collections.filter(({ name }) => check.chosen?.has(name) ?? true)
  const known: NodeSource[] = []
  for (const collection of named) known.push(await portrayed(collection, bucket, check.signal))
  const held = new Set(named.map(({ name }) => name))
  return {
    manifest: { manifestVersion: MANIFEST_VERSION.Node, ...manifest, collections: known },
    missing: [...(check.chosen ?? [])].filter((name) => !held.has(name)),
  }
}

/** Refuses names that neither the manifest nor the list of what was to be backed up has. */
function choose(manifest: Source, { collections }: Owner, { chosen }: Check): Found {
  const held = new Set(manifest.collections.map(({ name }) => name))
  const expected = new Set([...collections, ...held])
  const unknown = [...(chosen ?? [])].find((name) => !expected.has(name))
  if (unknown !== undefined) {
    throw new Rejected(
      `--collections names ${unknown}, which is no collection of this backup: it has ${listed([...expected])}`,
    )
  }
  const names = chosen ?? expected
  const missing = [...names].filter((name) => !held.has(name))
  if (chosen === undefined) return { manifest, missing }
  return { manifest: withOnly(manifest, chosen), missing }
}

function withOnly(manifest: Source, chosen: ReadonlySet<string>): Source {
  const isChosen = ({ name }: { name: string }) => chosen.has(name)
  return isByShard(manifest)
    ? { ...manifest, collections: manifest.collections.filter(isChosen) }
    : { ...manifest, collections: manifest.collections.filter(isChosen) }
}

function listed(names: string[]): string {
  if (names.length === 0) return 'none'
  const more = names.length > MAX_LISTED ? ` and ${names.length - MAX_LISTED} more` : ''
  return `${names.slice(0, MAX_LISTED).join(', ')}${more}`
}

function warnOfEmptyNodes({ name, snapshots }: NodeSource, log: Logger): void {
  const empty = snapshots.filter(({ localShards }) => localShards.length === 0)
  if (empty.length === 0) return
  const nodes = empty.map(({ nodeIndex }) => nodeIndex)
  log.info({ collection: name, nodes }, 'nodes that held no shard of this collection')
}

/** Undefined when the object is as the manifest says. */
async function problemOf(
  bucket: Bucket,
  folder: string,
  snapshot: SourceSnapshot,
  check: Check,
): Promise<string | undefined> {
  const { key, sizeBytes, sha256 } = snapshot
  if (!key.startsWith(folder)) return `${key} is not in the folder of this backup`
  // Of a stream the engine tells none.
  const checksum = 'checksum' in snapshot ? snapshot.checksum : undefined
  const isDifferent = checksum !== undefined && checksum.toLowerCase() !== sha256
  if (isDifferent && sha256 !== undefined) {
    return `${key}: the engine's checksum is not the SHA-256 of what was uploaded`
  }
  const size = await bucket.size(key, check.signal)
  if (size === undefined) return `${key} is missing`
  if (size !== sizeBytes) return `${key} has ${size} bytes, not ${sizeBytes}`
  if (check.sizesOnly) return undefined
  const found = await hashOf(bucket, key, check)
  // Without a checksum it was read to its end, and no more can be said.
  return sha256 === undefined || found === sha256
    ? undefined
    : `${key} has the SHA-256 ${found}, not ${sha256}`
}

async function hashOf(bucket: Bucket, key: string, { log, signal }: Check): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const body = await bucket.read(key, signal)
    try {
      const hash = createHash('sha256')
      for await (const chunk of body) hash.update(chunk as Uint8Array)
      return hash.digest('hex')
    } catch (error) {
      signal.throwIfAborted()
      if (attempt === READ_ATTEMPTS) {
        throw new StorageError(`GET s3://${bucket.name}/${key} broke off: ${wordsOf(error)}`)
      }
      log.warn({ key, reason: wordsOf(error) }, 'broke off: reads it again')
    }
  }
}

function chosenIn(call: PeopleCall): ReadonlySet<string> | undefined {
  const text = textOf(call, 'collections')
  if (text === undefined) return undefined
  const names = text.split(',').filter((name) => name !== '')
  if (names.length > 0) return new Set(names)
  throw new Complaint('--collections names no collection', ENDS.usage)
}

async function openBucket(target: string, call: PeopleCall) {
  const { env, log, time } = call
  const [, name = '', path = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(target) ?? []
  const parts = path.split('/').filter((part) => part !== '')
  if (name === '' || parts.length === 0) {
    throw new Complaint(`${target} is not of the form ${backupVerify.operands}`, ENDS.usage)
  }
  wantKeys(env)
  const [endpoint, file] = [textOf(call, 'endpoint'), textOf(call, 'ca')]
  const ca = file === undefined ? undefined : await readFile(file, 'utf8')
  const [{ Bucket: BucketAt }, { credentialsFrom }] = await Promise.all([
    import('../clients/s3.ts'),
    import('../clients/s3-credentials.ts'),
  ])
  const reference = {
    name: 'in the environment',
    accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
    secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
  }
  const bucket = new BucketAt({
    target: {
      bucket: name,
      region: textOf(call, 'region') ?? 'us-east-1',
      forcePathStyle: isOn(call, 'path-style'),
      ...(endpoint !== undefined && { endpoint }),
    },
    credentials: () => credentialsFrom(reference, (key) => (key === 'ca.crt' ? ca : env[key])),
    time,
    log,
  })
  return { bucket, folder: `${parts.join('/')}/` }
}

/** Before the store is asked: it would not say which variable is meant. */
function wantKeys(env: NodeJS.ProcessEnv): void {
  for (const name of ['ACCESS_KEY_ID', 'SECRET_ACCESS_KEY']) {
    if ([`CLOUD_${name}`, `AWS_${name}`].every((one) => (env[one] ?? '') === '')) {
      throw new Complaint(`neither CLOUD_${name} nor AWS_${name} is in the environment`)
    }
  }
}
