/**
 * owner.json: whose a folder of the bucket is. It is written before anything else, so that a namesake
 * from another namespace, cluster or time can neither write there nor purge it; and it keeps what an
 * attempt that goes on must not decide anew.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Rejected } from '../../crds/errors.ts'
import { ownerKey } from '../../crds/layout.ts'
import { Time } from '../../crds/schema.ts'
import type { Bucket } from '../clients/s3.ts'

export const Owner = Type.Object({
  uid: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  cluster: Type.Object({ namespace: Type.String(), name: Type.String() }),
  /** When the first attempt started. */
  startedAt: Time(),
  /** What is backed up: made later is not part of it, deleted since is missing from it. */
  collections: Type.Array(Type.String()),
})
export type Owner = Static<typeof Owner>

/** The owner there is; undefined when the folder is nobody's. */
export async function ownerOf(
  bucket: Bucket,
  folder: string,
  signal?: AbortSignal,
): Promise<Owner | undefined> {
  const found = await bucket.getJson(ownerKey(folder), signal)
  if (found === undefined) return undefined
  if (Value.Check(Owner, found)) return found
  throw new Rejected(`s3://${bucket.name}/${ownerKey(folder)} is not an owner.json of a backup`)
}

/** Takes the folder; throws `Rejected` when it is another's. Answers with what stands there then. */
export async function claim(
  bucket: Bucket,
  folder: string,
  owner: Owner,
  signal: AbortSignal,
): Promise<Owner> {
  if ((await ownerOf(bucket, folder, signal)) === undefined) {
    await refuseStrangers(bucket, folder, signal)
    await bucket.putJson(ownerKey(folder), owner, { onlyNew: true, signal })
  }
  // Read in any case: two may have written at the same moment.
  const found = await ownerOf(bucket, folder, signal)
  if (found?.uid === owner.uid) return found
  const whose = found === undefined ? '' : ` (VecBackup ${found.namespace}/${found.name})`
  throw new Rejected(`prefix holds another backup${whose}: s3://${bucket.name}/${folder}`)
}

/** Deleting this backup would delete them too. */
async function refuseStrangers(bucket: Bucket, folder: string, signal: AbortSignal): Promise<void> {
  const { objects } = await bucket.list(folder, { max: 1, signal })
  const [first] = objects
  if (first === undefined) return
  throw new Rejected(
    `prefix holds another backup, or other objects: s3://${bucket.name}/${first.key}`,
  )
}
