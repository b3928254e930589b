/**
 * `backup verify s3://bucket/prefix/name`: verifies a backup from the bucket alone. It reads and checks the
 * manifest, reads every object of it completely and compares its size and SHA-256.
 */
import { createHash } from 'node:crypto'
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
import { jobLog } from '../log.ts'
import { BUCKET_FLAGS, CREDENTIALS_HELP, openNamedBucket, parseS3Path } from './bucket-flags.ts'
import {
  CliError,
  EXIT_CODES,
  booleanFlag,
  stringFlag,
  type Invocation,
  type CliCommand,
} from './command.ts'
import { formatOutput, outputFlags, outputFormat } from './output.ts'

export const backupVerify: CliCommand = {
  name: 'backup verify',
  operands: 's3://<bucket>/<prefix>/<name>',
  operandCount: { min: 1, max: 1 },
  summary: 'verify a backup in its bucket: read every object completely',
  details: [
    'Fails unless every collection of the spec is complete in the bucket, even if the backup itself failed; --collections limits the check.',
    `${CREDENTIALS_HELP} Each object is logged on one line; LOG_FORMAT is text or json.`,
    'With --output, standard output has only the result, and the log is on standard error. The exit code is the same.',
  ],
  flags: {
    ...BUCKET_FLAGS,
    'sizes-only': {
      type: 'boolean',
      description: 'compare sizes only, without reading the objects',
    },
    collections: {
      type: 'string',
      value: 'NAMES',
      description: 'collections to check, separated by commas',
    },
    ...outputFlags(),
  },
  run: verify,
}

const READ_ATTEMPTS = 3
/** Maximum number of names in a message. */
const MAX_LISTED = 10

/** What was found; printed with `--output`. */
interface VerifyResult extends Partial<ReturnType<typeof describe>> {
  /** `s3://<bucket>/<prefix>/<name>` */
  location: string
  /** Whether every object of every collection is as recorded; if not, `problems` says why. */
  complete: boolean
  /** `size`: of at least one object, only the size was compared. */
  compared: 'sha256' | 'size'
  problems: string[]
  objects: VerifiedObject[]
  /** Bytes of all objects without a problem. */
  bytes?: number
}

interface VerifiedObject {
  collection: string
  node: number
  /** Absent in a backup by node. */
  shard?: number
  key: string
  /** Absent if there is a problem. */
  bytes?: number
  problem?: string
}

async function verify(call: Invocation): Promise<number> {
  const [target = ''] = call.operands
  const { name, folder } = parseTarget(target)
  const { signal } = call
  const options: VerifyOptions = {
    log: logOf(call),
    signal,
    sizesOnly: booleanFlag(call, 'sizes-only'),
    selected: selectedNames(call),
  }
  const result: VerifyResult = {
    location: target,
    complete: false,
    compared: options.sizesOnly ? 'size' : 'sha256',
    problems: [],
    objects: [],
  }
  try {
    const bucket = await openNamedBucket(name, { ...call, log: options.log })
    try {
      await verifyFolder(bucket, folder, { ...options, result })
    } finally {
      bucket.close()
    }
  } catch (error) {
    if (!(error instanceof Rejected || error instanceof StorageError)) throw error
    options.log.error({ backup: target }, error.message)
    result.problems.push(error.message)
  }
  if (outputFormat(call) !== undefined) call.print(formatOutput(call, result, () => ''))
  return result.complete ? EXIT_CODES.success : EXIT_CODES.failure
}

/** The log is the result, unless a format is requested: then it is on standard error. */
function logOf({ flags, env, log, print }: Invocation): Logger {
  if (outputFormat({ flags }) !== undefined) return log
  return jobLog({ LOG_FORMAT: 'text', ...env }, { write: print })
}

interface VerifyOptions {
  log: Logger
  signal: AbortSignal
  sizesOnly: boolean
  /** Names of the collections to check; undefined: all collections that the backup should contain. */
  selected: ReadonlySet<string> | undefined
}

/** Logs a line for each object and a summary, and completes `result`. */
async function verifyFolder(
  bucket: Bucket,
  folder: string,
  { result, ...options }: VerifyOptions & { result: VerifyResult },
): Promise<void> {
  const { manifest, missing } = await readManifest(bucket, folder, options)
  const { problems, objects } = result
  for (const name of missing) {
    const problem = `collection ${name} is not in this backup: it failed, or was deleted during the backup`
    problems.push(problem)
    options.log.error(problem)
  }
  let bytes = 0
  for (const collection of manifest.collections) {
    for (const snapshot of collection.snapshots) {
      options.signal.throwIfAborted()
      const problem = await verifyObject(bucket, folder, snapshot, options)
      const shard = 'shardId' in snapshot ? { shard: snapshot.shardId } : {}
      const fields = { collection: collection.name, node: snapshot.nodeIndex, ...shard }
      const { key, sizeBytes } = snapshot
      if (problem === undefined) {
        bytes += sizeBytes
        objects.push({ ...fields, key, bytes: sizeBytes })
        options.log.info({ ...fields, bytes: sizeBytes }, `ok ${key}`)
      } else {
        problems.push(problem)
        objects.push({ ...fields, key, problem })
        options.log.error({ ...fields }, problem)
      }
    }
  }
  const withoutChecksum = allSnapshots(manifest).filter(({ sha256 }) => sha256 === undefined).length
  Object.assign(result, describe(manifest), {
    complete: problems.length === 0,
    bytes,
    ...(withoutChecksum > 0 && { compared: 'size' as const }),
  })
  logResult(manifest, { bytes, withoutChecksum, problems: problems.length }, options)
}

function logResult(
  manifest: SourceManifest,
  found: { bytes: number; withoutChecksum: number; problems: number },
  { log, sizesOnly }: VerifyOptions,
): void {
  const fields = describe(manifest)
  const { bytes, withoutChecksum, problems } = found
  if (problems > 0) {
    const count = problems === 1 ? '1 problem' : `${problems} problems`
    log.error(fields, `this backup is incomplete: ${count}`)
    return
  }
  if (withoutChecksum > 0 && !sizesOnly) {
    const limitation = 'only sizes and the headers of their archives were compared'
    log.warn(fields, `${withoutChecksum} objects have no checksum in the manifest: ${limitation}`)
  }
  const outcome = sizesOnly || withoutChecksum > 0 ? 'have the right size' : 'are complete'
  const { length } = allSnapshots(manifest)
  log.info(fields, `all ${length} objects ${outcome}: ${formatBytes(bytes)}`)
}

function describe(manifest: SourceManifest) {
  return {
    backup: manifest.backupName,
    cluster: `${manifest.cluster.namespace}/${manifest.cluster.name}`,
    createdAt: manifest.createdAt,
    engineVersion: manifest.engineVersion,
    nodes: manifest.nodeCount,
    collections: manifest.collections.length,
    points: manifest.collections.reduce((sum, { pointsCount = 0 }) => sum + pointsCount, 0),
  }
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

function parseTarget(target: string): { name: string; folder: string } {
  const path = parseS3Path(target)
  if (path === undefined || path.parts.length === 0) {
    throw new CliError(`${target} is not of the form ${backupVerify.operands}`, EXIT_CODES.usage)
  }
  return { name: path.bucket, folder: `${path.parts.join('/')}/` }
}
