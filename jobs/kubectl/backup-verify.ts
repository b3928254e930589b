/**
 * `backup verify s3://bucket/prefix/name`: verifies a backup from the bucket alone. It reads and checks the
 * manifest, reads every object of it completely and compares its size and SHA-256.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import type { Logger } from 'pino'
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import { manifestKey, ownerKey } from '../../crds/contract/backup-keys.ts'
import { MANIFEST_VERSION, isShardManifest } from '../../crds/contract/manifest.ts'
import {
  parseManifest,
  parseForeignManifest,
  isForeignManifest,
  type SourceNodeCollection,
  type SourceManifest,
  type SourceSnapshot,
} from '../manifest-check.ts'
import { formatBytes, formatNames } from '../../crds/units.ts'
import { readOwner, type Owner } from '../backup/owner.ts'
import { errorMessage } from '../clients/http/request.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { collectionFromSnapshots } from '../restore/snapshot-metadata.ts'
import {
  CliError,
  ENVIRONMENT_CREDENTIALS,
  EXIT_CODES,
  booleanFlag,
  requireCredentials,
  stringFlag,
  type Invocation,
  type CliCommand,
} from './command.ts'

export const backupVerify: CliCommand = {
  name: 'backup verify',
  operands: 's3://<bucket>/<prefix>/<name>',
  operandCount: { min: 1, max: 1 },
  summary: 'verify a backup in its bucket: read every object completely',
  details: [
    'Fails unless every collection of the spec is complete in the bucket, even if the backup itself failed; --collections limits the check.',
    'Credentials come from the environment: CLOUD_ACCESS_KEY_ID and CLOUD_SECRET_ACCESS_KEY, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for temporary ones also CLOUD_SESSION_TOKEN or AWS_SESSION_TOKEN. Each object is logged on one line; LOG_FORMAT is text or json.',
  ],
  flags: {
    endpoint: { type: 'string', value: 'URL', description: 'endpoint of an S3-compatible store' },
    region: {
      type: 'string',
      value: 'REGION',
      default: 'us-east-1',
      description: 'region of the bucket; default: us-east-1',
    },
    'path-style': { type: 'boolean', description: 'put the bucket into the path of the URL' },
    ca: { type: 'string', value: 'FILE', description: 'certificate authority of the store, PEM' },
    'sizes-only': {
      type: 'boolean',
      description: 'compare sizes only, without reading the objects',
    },
    collections: {
      type: 'string',
      value: 'NAMES',
      description: 'collections to check, separated by commas',
    },
  },
  run: verify,
}

const READ_ATTEMPTS = 3
/** Maximum number of names in a message. */
const MAX_LISTED = 10

async function verify(call: Invocation): Promise<number> {
  const [target = ''] = call.operands
  try {
    const { bucket, folder } = await openBucket(target, call)
    try {
      const { log, signal } = call
      return await verifyFolder(bucket, folder, {
        log,
        signal,
        sizesOnly: booleanFlag(call, 'sizes-only'),
        selected: selectedNames(call),
      })
    } finally {
      bucket.close()
    }
  } catch (error) {
    if (!(error instanceof Rejected || error instanceof StorageError)) throw error
    call.log.error({ backup: target }, error.message)
    return EXIT_CODES.failure
  }
}

interface VerifyOptions {
  log: Logger
  signal: AbortSignal
  sizesOnly: boolean
  /** Names of the collections to check; undefined: all collections that the backup should contain. */
  selected: ReadonlySet<string> | undefined
}

/** Logs a line for each object and a summary; returns the exit code. */
async function verifyFolder(
  bucket: Bucket,
  folder: string,
  options: VerifyOptions,
): Promise<number> {
  const { manifest, missing } = await readManifest(bucket, folder, options)
  const problems = missing.map(
    (name) =>
      `collection ${name} is not in this backup: it failed, or was deleted during the backup`,
  )
  for (const problem of problems) options.log.error(problem)
  let bytes = 0
  for (const collection of manifest.collections) {
    for (const snapshot of collection.snapshots) {
      options.signal.throwIfAborted()
      const problem = await verifyObject(bucket, folder, snapshot, options)
      const shard = 'shardId' in snapshot ? { shard: snapshot.shardId } : {}
      const fields = { collection: collection.name, node: snapshot.nodeIndex, ...shard }
      if (problem === undefined) {
        bytes += snapshot.sizeBytes
        options.log.info({ ...fields, bytes: snapshot.sizeBytes }, `ok ${snapshot.key}`)
      } else {
        problems.push(problem)
        options.log.error({ ...fields }, problem)
      }
    }
  }
  return logResult(manifest, problems, bytes, options)
}

function logResult(
  manifest: SourceManifest,
  problems: string[],
  bytes: number,
  options: VerifyOptions,
): number {
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
    options.log.error(fields, `this backup is incomplete: ${count}`)
    return EXIT_CODES.failure
  }
  const withoutChecksum = allSnapshots(manifest).filter(({ sha256 }) => sha256 === undefined).length
  if (withoutChecksum > 0 && !options.sizesOnly) {
    const limitation = 'only sizes and the headers of their archives were compared'
    options.log.warn(
      fields,
      `${withoutChecksum} objects have no checksum in the manifest: ${limitation}`,
    )
  }
  const outcome = options.sizesOnly || withoutChecksum > 0 ? 'have the right size' : 'are complete'
  options.log.info(fields, `all ${objects} objects ${outcome}: ${formatBytes(bytes)}`)
  return EXIT_CODES.success
}

function allSnapshots({ collections }: SourceManifest): SourceSnapshot[] {
  return collections.flatMap(({ snapshots }): readonly SourceSnapshot[] => snapshots)
}

interface ReadManifest {
  /** The manifest, with only the selected collections. */
  manifest: SourceManifest
  /** Selected collections that are not in the manifest. */
  missing: string[]
}

async function readManifest(
  bucket: Bucket,
  folder: string,
  options: VerifyOptions,
): Promise<ReadManifest> {
  const key = manifestKey(folder)
  const content = await bucket.getJson(key, options.signal)
  if (content === undefined) {
    const explanation = 'the backup did not finish, or the path is wrong'
    throw new Rejected(`s3://${bucket.name}/${key} not found: ${explanation}`)
  }
  if (isForeignManifest(content)) return readForeignManifest(content, bucket, folder, options)
  const manifest = parseManifest(content)
  if (manifest.manifestSha256 === undefined) {
    options.log.warn(
      { key },
      'the manifest is from an earlier release and has no checksum: its fields cannot be verified',
    )
  }
  const owner = await readOwner(bucket, folder, options.signal)
  if (owner?.uid !== manifest.uid) {
    throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} does not match this manifest`)
  }
  if (!isShardManifest(manifest)) {
    for (const collection of manifest.collections) logEmptyNodes(collection, options.log)
  }
  return selectCollections(manifest, owner, options)
}

/** A manifest of another program: the bucket has no record of the collections it should contain. */
async function readForeignManifest(
  value: unknown,
  bucket: Bucket,
  folder: string,
  options: VerifyOptions,
): Promise<ReadManifest> {
  const { collections, ...manifest } = parseForeignManifest(value)
  const owner = await readOwner(bucket, folder, options.signal)
  if (owner !== undefined) {
    throw new Rejected(
      `manifest.json has no manifestVersion, but the folder belongs to VecBackup ${owner.namespace}/${owner.name}: the manifest was modified`,
    )
  }
  options.log.warn(
    { key: manifestKey(folder) },
    'the manifest is from another program: missing collections cannot be detected',
  )
  const matching = collections.filter(({ name }) => options.selected?.has(name) ?? true)
  const described: SourceNodeCollection[] = []
  for (const collection of matching)
    described.push(await collectionFromSnapshots(collection, bucket, options.signal))
  const present = new Set(matching.map(({ name }) => name))
  return {
    manifest: { manifestVersion: MANIFEST_VERSION.Node, ...manifest, collections: described },
    missing: [...(options.selected ?? [])].filter((name) => !present.has(name)),
  }
}

/** Rejects names that are neither in the manifest nor in the list of collections to back up. */
function selectCollections(
  manifest: SourceManifest,
  { collections }: Owner,
  { selected }: VerifyOptions,
): ReadManifest {
  const present = new Set(manifest.collections.map(({ name }) => name))
  const expected = new Set([...collections, ...present])
  const unknown = [...(selected ?? [])].find((name) => !expected.has(name))
  if (unknown !== undefined) {
    throw new Rejected(
      `--collections names ${unknown}, which is not in this backup; its collections are ${namesOrNone([...expected])}`,
    )
  }
  // A backup of all collections is complete without those that clients deleted meanwhile.
  const deleted = new Set(manifest.deletedCollections)
  const selectedCollections = selected ?? [...expected].filter((name) => !deleted.has(name))
  const missing = [...selectedCollections].filter((name) => !present.has(name))
  if (selected === undefined) return { manifest, missing }
  return { manifest: filterCollections(manifest, selected), missing }
}

function filterCollections(
  manifest: SourceManifest,
  selected: ReadonlySet<string>,
): SourceManifest {
  const isSelected = ({ name }: { name: string }) => selected.has(name)
  return isShardManifest(manifest)
    ? { ...manifest, collections: manifest.collections.filter(isSelected) }
    : { ...manifest, collections: manifest.collections.filter(isSelected) }
}

function namesOrNone(names: string[]): string {
  if (names.length === 0) return 'none'
  return formatNames(names, MAX_LISTED)
}

function logEmptyNodes({ name, snapshots }: SourceNodeCollection, log: Logger): void {
  const empty = snapshots.filter(({ localShards }) => localShards.length === 0)
  if (empty.length === 0) return
  const nodes = empty.map(({ nodeIndex }) => nodeIndex)
  log.info({ collection: name, nodes }, 'nodes without a shard of this collection')
}

/** Undefined when the object matches the manifest. */
async function verifyObject(
  bucket: Bucket,
  folder: string,
  snapshot: SourceSnapshot,
  options: VerifyOptions,
): Promise<string | undefined> {
  const { key, sizeBytes, sha256 } = snapshot
  if (!key.startsWith(folder)) return `${key} is not in the folder of this backup`
  // The engine reports no checksum for a stream.
  const checksum = 'checksum' in snapshot ? snapshot.checksum : undefined
  const isDifferent = checksum !== undefined && checksum.toLowerCase() !== sha256
  if (isDifferent && sha256 !== undefined) {
    return `${key}: the engine's checksum is not the SHA-256 of the uploaded object`
  }
  const size = await bucket.size(key, options.signal)
  if (size === undefined) return `${key} is missing`
  if (size !== sizeBytes) return `${key} has ${size} bytes, not ${sizeBytes}`
  if (options.sizesOnly) return undefined
  const actualSha256 = await hashObject(bucket, key, options)
  // Without a checksum, reading the object to its end is the only check.
  return sha256 === undefined || actualSha256 === sha256
    ? undefined
    : `${key} has the SHA-256 ${actualSha256}, not ${sha256}`
}

async function hashObject(
  bucket: Bucket,
  key: string,
  { log, signal }: VerifyOptions,
): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    const body = await bucket.read(key, signal)
    try {
      const hash = createHash('sha256')
      for await (const chunk of body) hash.update(chunk as Uint8Array)
      return hash.digest('hex')
    } catch (error) {
      signal.throwIfAborted()
      if (attempt === READ_ATTEMPTS) {
        throw new StorageError(`GET s3://${bucket.name}/${key} broke off: ${errorMessage(error)}`)
      }
      log.warn({ key, reason: errorMessage(error) }, 'download interrupted, retrying')
    }
  }
}

function selectedNames(call: Invocation): ReadonlySet<string> | undefined {
  const text = stringFlag(call, 'collections')
  if (text === undefined) return undefined
  const names = text.split(',').filter((name) => name !== '')
  if (names.length > 0) return new Set(names)
  throw new CliError('--collections names no collection', EXIT_CODES.usage)
}

async function openBucket(target: string, call: Invocation) {
  const { env, log, time } = call
  const [, name = '', path = ''] = /^s3:\/\/([^/]+)\/(.+)$/.exec(target) ?? []
  const parts = path.split('/').filter((part) => part !== '')
  if (name === '' || parts.length === 0) {
    throw new CliError(`${target} is not of the form ${backupVerify.operands}`, EXIT_CODES.usage)
  }
  requireCredentials(env)
  const [endpoint, file] = [stringFlag(call, 'endpoint'), stringFlag(call, 'ca')]
  const ca = file === undefined ? undefined : await readFile(file, 'utf8')
  const [{ Bucket: BucketClient }, { parseCredentials: credentialsFrom }] = await Promise.all([
    import('../clients/s3/bucket.ts'),
    import('../clients/s3/credentials.ts'),
  ])
  const bucket = new BucketClient({
    target: {
      bucket: name,
      region: stringFlag(call, 'region') ?? 'us-east-1',
      forcePathStyle: booleanFlag(call, 'path-style'),
      ...(endpoint !== undefined && { endpoint }),
    },
    credentials: () =>
      credentialsFrom(ENVIRONMENT_CREDENTIALS, (key) => (key === 'ca.crt' ? ca : env[key])),
    time,
    log,
  })
  return { bucket, folder: `${parts.join('/')}/` }
}
