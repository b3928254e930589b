/**
 * `backup delete s3://bucket/prefix/name`: deletes the objects of one backup from the bucket, by the rules of the
 * operator's own purge. For backups whose VecBackup is gone; while there is one, it is deleted instead.
 */
import { manifestKey, ownerKey } from '../../crds/contract/backup-keys.ts'
import { StorageError } from '../../crds/contract/errors.ts'
import { formatBytes } from '../../crds/units.ts'
import { ownedObjects, surveyFolder, type FolderContent } from '../backup/folder.ts'
import { readOwner, type Owner } from '../backup/owner.ts'
import { purgeAll } from '../backup/purge.ts'
import { findActiveReader, type ActiveReader } from '../backup/readers.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import { escapeUnprintable } from '../log.ts'
import { BUCKET_FLAGS, CREDENTIALS_HELP, openNamedBucket } from './bucket-flags.ts'
import { requireUnusedInCluster } from './backup-users.ts'
import {
  booleanFlag,
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  type CliCommand,
  type Invocation,
} from './command.ts'

export const backupDelete: CliCommand = {
  name: 'backup delete',
  operands: 's3://<bucket>/<prefix>/<name>',
  operandCount: { min: 1, max: 1 },
  summary: 'delete the objects of one backup from its bucket',
  details: [
    'For a backup whose VecBackup is gone. Deletes only what that backup can have written, and nothing in an inner folder with its own owner.json or manifest.json. Refuses if owner.json is missing or does not match the manifest, if a restore reads the backup, or if its VecBackup exists in the Kubernetes cluster of the kubeconfig: then delete the VecBackup. Fails if any object is left in the folder, and names one.',
    `Without --yes, asks on a terminal, and refuses elsewhere. In a bucket with versions, the store keeps the deleted objects as earlier versions. ${CREDENTIALS_HELP}`,
  ],
  flags: {
    ...BUCKET_FLAGS,
    'dry-run': { type: 'boolean', description: 'only print the objects and their sizes in bytes' },
    yes: { type: 'boolean', short: 'y', description: 'do not ask' },
    unfinished: {
      type: 'boolean',
      description: 'also if it has no manifest.json; it must not be running',
    },
    'bucket-only': {
      type: 'boolean',
      description: 'do not look for its VecBackup and restores in a Kubernetes cluster',
    },
    kubeconfig: CLUSTER_FLAGS.kubeconfig,
    context: CLUSTER_FLAGS.context,
  },
  run: deleteBackup,
}

interface Target {
  bucketName: string
  prefix: string
  name: string
  /** `<prefix>/<name>/` */
  folder: string
}

async function deleteBackup(call: Invocation): Promise<number> {
  const target = parseTarget(call.operands[0] ?? '')
  const { signal } = call
  const bucket = await openNamedBucket(target.bucketName, call)
  try {
    const owner = await requireOwner(bucket, target, call)
    if (!booleanFlag(call, 'bucket-only')) await requireUnusedInCluster(call, { owner, ...target })
    const { folder } = target
    const reader = await findActiveReader(bucket, folder, call.time.now(), signal)
    if (reader !== undefined) throw readerError(reader)
    const content = await surveyFolder({ bucket, folder, signal })
    if (booleanFlag(call, 'dry-run')) {
      await printObjects(call, bucket, folder, content)
      call.print(`would be deleted: ${describe(owner, content)}\n`)
      return EXIT_CODES.success
    }
    if (!booleanFlag(call, 'yes')) await requireConfirmation(call, describe(owner, content))
    const deleted = await deleteObjects(call, bucket, { ...target, uid: owner.uid })
    call.print(`${formatObjects(deleted)} deleted\n`)
    return EXIT_CODES.success
  } finally {
    bucket.close()
  }
}

/** Exactly as a backup names its folder: another spelling may name other keys, or be resolved to them. */
function parseTarget(target: string): Target {
  const [, bucketName = '', path = ''] = /^s3:\/\/([^/]+)\/(.+?)\/?$/s.exec(target) ?? []
  const parts = path.split('/')
  if (bucketName === '' || parts.some((part) => ['', '.', '..'].includes(part))) {
    throw new CliError(
      `${target} is not of the form ${backupDelete.operands}, without empty, . and .. segments`,
      EXIT_CODES.usage,
    )
  }
  const name = parts.at(-1) ?? ''
  return { bucketName, prefix: parts.slice(0, -1).join('/'), name, folder: `${path}/` }
}

/** Only owner.json proves that the objects belong to a backup of this operator. */
async function requireOwner(bucket: Bucket, { folder }: Target, call: Invocation): Promise<Owner> {
  const path = `s3://${bucket.name}/${folder}`
  const owner = await readOwner(bucket, folder, call.signal)
  if (owner === undefined) {
    throw new CliError(
      `${path} has no owner.json: nothing proves that its objects belong to a backup of this operator`,
    )
  }
  const manifest = await bucket.getJson(manifestKey(folder), call.signal)
  if (manifest === undefined) {
    if (booleanFlag(call, 'unfinished')) return owner
    throw new CliError(
      `${path} has no manifest.json: the backup of VecBackup ${owner.namespace}/${owner.name} is running, did not finish, or is partly deleted; if it is not running, pass --unfinished`,
    )
  }
  const isObject = typeof manifest === 'object' && manifest !== null
  if (!isObject || !('uid' in manifest) || manifest.uid !== owner.uid) {
    throw new CliError(
      `s3://${bucket.name}/${ownerKey(folder)} does not match the manifest: the objects may belong to another backup`,
    )
  }
  return owner
}

/** In bytes, for scripts. */
async function printObjects(
  call: Invocation,
  bucket: Bucket,
  folder: string,
  { inner }: FolderContent,
): Promise<void> {
  const context = { bucket, folder, signal: call.signal }
  for await (const { key, sizeBytes } of ownedObjects(context, new Set(inner))) {
    call.print(`${sizeBytes} s3://${bucket.name}/${escapeUnprintable(key)}\n`)
  }
}

function describe({ namespace, name, uid, startedAt }: Owner, content: FolderContent): string {
  const owner = `VecBackup ${namespace}/${name} (uid ${uid}, started at ${startedAt})`
  return escapeUnprintable(
    `${formatObjects(content.objects)}, ${formatBytes(content.bytes)}, written by ${owner}`,
  )
}

function formatObjects(count: number): string {
  return count === 1 ? '1 object' : `${count} objects`
}

async function requireConfirmation({ ask }: Invocation, what: string): Promise<void> {
  const answer = await ask(`Delete ${what}? (yes/no): `)
  if (answer === undefined) {
    throw new CliError(
      'standard input is not a terminal: pass --yes to delete without being asked; nothing was deleted',
      EXIT_CODES.usage,
    )
  }
  if (answer.trim().toLowerCase() !== 'yes') throw new CliError('nothing was deleted')
}

function readerError({ namespace, name, until }: ActiveReader): CliError {
  return new CliError(
    `VecRestore ${namespace}/${name} recorded in the bucket that it reads the backup; the record expires at ${until} unless the restore renews it`,
  )
}

/** Deletes batch by batch and returns the number of objects; throws if any is left in the folder. */
async function deleteObjects(
  call: Invocation,
  bucket: Bucket,
  target: Target & { uid: string },
): Promise<number> {
  const { signal, time } = call
  const { reader, deleted } = await purgeAll(bucket, target, { signal, time }).catch(
    async (error: unknown) => {
      if (error instanceof StorageError) throw await withRest(error, bucket, target.folder, signal)
      throw error
    },
  )
  if (reader !== undefined) throw await withRest(readerError(reader), bucket, target.folder, signal)
  const left = await describeRest(bucket, target.folder, signal)
  if (left !== '') throw new CliError(`${formatObjects(deleted)} deleted; ${left}`)
  return deleted
}

async function withRest(
  { message }: Error,
  bucket: Bucket,
  folder: string,
  signal: AbortSignal,
): Promise<CliError> {
  // The store may not answer this either.
  const left = await describeRest(bucket, folder, signal).catch(() => '')
  return new CliError(left === '' ? message : `${message}; ${left}`)
}

/** Empty text if the folder is empty. */
async function describeRest(bucket: Bucket, folder: string, signal: AbortSignal): Promise<string> {
  const { objects, bytes, others } = await surveyFolder({ bucket, folder, signal })
  const texts = []
  if (objects > 0)
    texts.push(`${formatObjects(objects)} of the backup (${formatBytes(bytes)}) left`)
  if (others !== undefined) {
    texts.push(
      `${formatObjects(others.count)} that the backup did not write left, such as s3://${bucket.name}/${others.example}`,
    )
  }
  return texts.join('; ')
}
