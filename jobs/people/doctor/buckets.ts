/**
 * Whether the buckets that backups are written to can be read from here, with their own credentials. Tenants
 * name the address and the Secret, and the caller may read Secrets of all of them: so nothing is sent anywhere
 * unless `--buckets` asks for it.
 */
import { Type } from '@sinclair/typebox'
import { VecBackup } from '../../../crds/backup.ts'
import { VecBackupSchedule } from '../../../crds/backup-schedule.ts'
import { StorageError } from '../../../crds/errors.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/names.ts'
import { isCredentialType } from '../../../crds/rules/secret-type.ts'
import { Storage, type S3Target } from '../../../crds/storage.ts'
import { bucketWith } from '../bucket.ts'
import { secretIn } from '../engines.ts'
import { place, unread, type Finding, type Patient } from './finding.ts'

const Backup = Type.Object({ ...AnyObject.properties, spec: Type.Object({ storage: Storage }) })

interface Place {
  namespace: string
  target: S3Target
}

/** Backups by the hundred share a few buckets; what is more than this is not asked. */
const MAX_BUCKETS = 20
const CALL_MS = 10_000

export async function checkBuckets(patient: Patient): Promise<Finding[]> {
  const about = 'buckets'
  try {
    const places = await bucketsOf(patient)
    const asked = places.slice(0, MAX_BUCKETS)
    const findings = await Promise.all(asked.map((one) => checkOne(one, patient)))
    const left = places.length - asked.length
    if (left === 0) return findings
    return [...findings, { about, level: 'warning', says: `${left} more were not looked at` }]
  } catch (error) {
    return unread(about, error)
  }
}

/** Each bucket once, as one namespace reaches it. */
async function bucketsOf(patient: Patient): Promise<Place[]> {
  const lists = [VecBackupSchedule, VecBackup].map(({ plural }) =>
    patient.kubernetes.list(place(API_VERSION, plural, patient), Backup),
  )
  const places = new Map<string, Place>()
  for (const { metadata, spec } of (await Promise.all(lists)).flat()) {
    const { namespace = '' } = metadata
    const target = spec.storage.s3
    const { bucket, endpoint, credentialsSecretRef } = target
    const key = JSON.stringify([namespace, bucket, endpoint, credentialsSecretRef.name])
    if (!places.has(key)) places.set(key, { namespace, target })
  }
  return [...places.values()]
}

async function checkOne({ namespace, target }: Place, patient: Patient): Promise<Finding> {
  const about = `bucket ${target.bucket}`
  const { name } = target.credentialsSecretRef
  const secret = await secretIn(patient.kubernetes, namespace, name)
  if (secret === undefined) {
    return { about, level: 'wrong', says: `Secret ${namespace}/${name} not found` }
  }
  const { type = 'Opaque' } = secret
  if (!isCredentialType(type, [target.credentialsSecretRef.accessKeyIdKey])) {
    const says = `Secret ${namespace}/${name} is of type ${type}, which is not used as credentials`
    return { about, level: 'wrong', says }
  }
  if (!patient.callsBuckets) {
    const address = target.endpoint ?? `S3 in ${target.region}`
    const says = `not called: --buckets reads it at ${address} with Secret ${namespace}/${name}`
    return { about, level: 'fine', says }
  }
  const bucket = await bucketWith(secret, target, patient)
  try {
    const within = AbortSignal.any([patient.signal, AbortSignal.timeout(CALL_MS)])
    await bucket.list(target.prefix, { max: 1, signal: within })
    return { about, level: 'fine', says: `read with Secret ${namespace}/${name}` }
  } catch (error) {
    patient.signal.throwIfAborted()
    // A store inside the cluster has no address here: that is no proof.
    const isHeard = error instanceof StorageError && error.status !== undefined
    const says = error instanceof Error ? error.message : String(error)
    return {
      about,
      level: isHeard ? 'wrong' : 'warning',
      says: isHeard ? says : `${says} (from here)`,
    }
  } finally {
    bucket.close()
  }
}
