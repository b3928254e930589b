/**
 * `backup find s3://bucket/prefix`: the backups in a bucket, from the bucket alone. Also finds backups whose
 * VecBackup is gone. What is not a backup is counted.
 */
import {
  backupFolder,
  enclosingFolders,
  isWrittenByBackup,
  ownerKey,
} from '../../crds/contract/backup-keys.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import { formatBytes } from '../../crds/units.ts'
import type { ForeignObjects } from '../backup/folder.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { escapeUnprintable } from '../log.ts'
import { mapConcurrently } from '../retry.ts'
import { BUCKET_FLAGS, CREDENTIALS_HELP, openNamedBucket, parseS3Path } from './bucket-flags.ts'
import { CliError, EXIT_CODES, type CliCommand, type Invocation } from './command.ts'
import { describeBackup, type FoundBackup, type StoredFolder } from './found-backup.ts'
import {
  formatAge,
  formatColumns,
  formatOutput,
  oneLine,
  outputFlags,
  outputFormat,
} from './output.ts'

export const backupFind: CliCommand = {
  name: 'backup find',
  operands: 's3://<bucket>[/<prefix>]',
  operandCount: { min: 1, max: 1 },
  summary: 'list the backups in a bucket, also those without a VecBackup',
  details: [
    'Needs no Kubernetes cluster: lists all keys below the prefix, and reads manifest.json and owner.json of each backup, at most 64 MiB and 2 MiB of them. COMPLETE compares the manifest with the collections that the backup should have and with the listed objects and their sizes; `backup verify` reads the objects. SIZE is what the backup has in the bucket.',
    `A folder without a manifest is a backup that is running or did not finish. Objects that belong to no backup are counted. Fails if a manifest or an owner cannot be read; the line of that backup says why. ${CREDENTIALS_HELP}`,
  ],
  flags: { ...BUCKET_FLAGS, ...outputFlags('name', 'wide') },
  run: findBackups,
}

/** Their folders are kept in memory, and two objects of each are read. */
const MAX_BACKUPS = 10_000
/** Each has a manifest in memory. */
const CONCURRENT_READS = 4

async function findBackups(call: Invocation): Promise<number> {
  const [target = ''] = call.operands
  const path = parseS3Path(target)
  if (path === undefined) {
    throw new CliError(`${target} is not of the form ${backupFind.operands}`, EXIT_CODES.usage)
  }
  const { signal } = call
  const bucket = await openNamedBucket(path.bucket, call)
  try {
    // With its slash, so that `nightly` does not find `nightly-old/`.
    const prefix = path.parts.map((part) => `${part}/`).join('')
    const { folders, others } = await findFolders(bucket, prefix, signal)
    const found = await mapConcurrently(folders, CONCURRENT_READS, (folder) =>
      describeBackup(bucket, folder, signal),
    )
    const backups = found.toSorted((a, b) => (b.createdAt ?? '').localeCompare(a.createdAt ?? ''))
    const result = { backups, ...(others !== undefined && { otherObjects: others }) }
    call.print(formatOutput(call, result, () => formatText(call, backups)))
    if (others !== undefined) call.complain(formatOthers(bucket.name, others))
    return found.some(({ unreadable }) => unreadable) ? EXIT_CODES.failure : EXIT_CODES.success
  } finally {
    bucket.close()
  }
}

interface FoundFolders {
  folders: StoredFolder[]
  /** Objects of no backup. */
  others?: ForeignObjects
}

/**
 * A backup is a folder with owner.json or manifest.json. Other objects of it may be listed before these: all
 * keys are listed a second time, to count them.
 */
async function findFolders(
  bucket: Bucket,
  prefix: string,
  signal: AbortSignal,
): Promise<FoundFolders> {
  const folders = new Map<string, StoredFolder>()
  for await (const { key } of bucket.listAll(prefix, signal)) {
    const file = BACKUP_FILES.find((name) => key.endsWith(`/${name}`))
    if (file === undefined) continue
    const folder = key.slice(0, -file.length)
    if (!isFolderName(folder)) continue
    const found = folders.get(folder) ?? {
      folder,
      hasOwner: false,
      hasManifest: false,
      objects: 0,
      bytes: 0,
    }
    if (file === 'owner.json') found.hasOwner = true
    else found.hasManifest = true
    folders.set(folder, found)
    if (folders.size <= MAX_BACKUPS) continue
    throw new StorageError(
      `s3://${bucket.name}/${prefix} has more than ${MAX_BACKUPS} folders with a manifest.json or owner.json: pass a longer prefix`,
    )
  }
  let others: ForeignObjects | undefined
  for await (const { key, sizeBytes } of bucket.listAll(prefix, signal)) {
    const folder = folderOf(key, folders)
    if (folder === undefined) {
      others = { count: (others?.count ?? 0) + 1, example: others?.example ?? key }
    } else {
      folder.objects += 1
      folder.bytes += sizeBytes
    }
  }
  return { folders: [...folders.values()], ...(others !== undefined && { others }) }
}

const BACKUP_FILES = ['owner.json', 'manifest.json'] as const

/** No backup writes to a folder with empty or relative segments, and a store may resolve them to another key. */
function isFolderName(folder: string): boolean {
  const isCanonical = backupFolder({ prefix: folder, name: '' }) === folder
  return isCanonical && !folder.split('/').some((part) => part === '.' || part === '..')
}

/** The innermost backup around the key, if that backup can have written it, as a purge decides it. */
function folderOf(
  key: string,
  folders: ReadonlyMap<string, StoredFolder>,
): StoredFolder | undefined {
  const found = enclosingFolders(key)
    .flatMap((outer) => folders.get(outer) ?? [])
    .at(-1)
  if (found === undefined || !key.startsWith(found.folder)) return undefined
  // Another program may use other keys.
  if (!found.hasOwner || key === ownerKey(found.folder)) return found
  return isWrittenByBackup(found.folder, key) ? found : undefined
}

function formatText(call: Invocation, backups: FoundBackup[]): string {
  if (outputFormat(call) === 'name') {
    return backups.map(({ location }) => `${escapeUnprintable(location)}\n`).join('')
  }
  if (backups.length === 0) return 'No backups.\n'
  const isWide = outputFormat(call) === 'wide'
  const now = call.time.now()
  const rows = backups.map((backup) => [
    backup.location,
    backup.cluster ?? '-',
    formatAge(backup.createdAt, now),
    formatBytes(backup.bytes),
    backup.collections ?? '-',
    backup.points === undefined ? '-' : String(backup.points),
    backup.complete ? 'yes' : 'no',
    backup.owner ?? '-',
    ...(isWide
      ? [
          backup.createdAt ?? '-',
          String(backup.objects),
          backup.method ?? '-',
          backup.nodes === undefined ? '-' : String(backup.nodes),
          backup.engineVersion ?? '-',
        ]
      : []),
    oneLine(backup.problem ?? '', isWide ? Infinity : MAX_PROBLEM_WIDTH),
  ])
  const head = [
    ...['LOCATION', 'CLUSTER', 'AGE', 'SIZE', 'COLLECTIONS', 'POINTS', 'COMPLETE', 'OWNER'],
    ...(isWide ? ['TIME', 'OBJECTS', 'METHOD', 'NODES', 'ENGINE'] : []),
    'PROBLEM',
  ]
  return formatColumns([head, ...rows])
}

const MAX_PROBLEM_WIDTH = 80

/** On standard error, where it does not disturb scripts. */
function formatOthers(bucket: string, { count, example }: ForeignObjects): string {
  const objects = count === 1 ? '1 object belongs' : `${count} objects belong`
  return `${objects} to no backup, such as s3://${bucket}/${escapeUnprintable(example)}\n`
}
