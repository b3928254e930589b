/**
 * Checkpoints that an earlier pod of the Job wrote as part.json, when it ran the previous release.
 * Remove with the next release.
 */
import t from 'tap'
import { formerCheckpointKey } from '../../../../crds/contract/backup-keys.ts'
import { readCheckpoint, type SnapshotRef } from '../../../../jobs/backup/nodes/checkpoint.ts'
import type { RunContext } from '../../../../jobs/backup/context.ts'
import { addSeal } from '../../../../jobs/backup/objects.ts'
import { readUploaded } from '../../../../jobs/backup/shards/checkpoint.ts'

const KEY = 'nightly/b/docs/node-0/checkpoint.json'
const FORMER_KEY = 'nightly/b/docs/node-0/part.json'
const SHARD_KEY = 'nightly/b/docs/shard-7/checkpoint.json'
const FORMER_SHARD_KEY = 'nightly/b/docs/shard-7/part.json'
const REF: SnapshotRef = { collection: 'docs', ordinal: 0 }

/** A run of Job `job-1` in a bucket that holds these objects. */
function contextWith(objects: Record<string, object>): RunContext {
  const context = {
    folder: 'nightly/b/',
    plan: { uid: 'uid-b' },
    undeletedSnapshots: [],
    bucket: {
      getJson: async (key: string) => objects[key],
      size: async () => 5,
    },
    tools: { jobUid: 'job-1', log: { warn: () => undefined, info: () => undefined } },
  }
  return context as unknown as RunContext
}

function sealed(key: string, round: number, jobUid = 'job-1'): object {
  const content = { uid: 'uid-b', round, state: 'Begun' }
  return addSeal(key, content, { tools: { jobUid } })
}

t.test('the former key of a checkpoint', async (t) => {
  t.equal(formerCheckpointKey(KEY), FORMER_KEY)
  t.equal(formerCheckpointKey(SHARD_KEY), FORMER_SHARD_KEY)
})

t.test('a checkpoint is read under its former key too', async (t) => {
  const read = async (objects: Record<string, object>) =>
    (await readCheckpoint(REF, contextWith(objects)))?.round
  t.equal(await read({ [KEY]: sealed(KEY, 2) }), 2)
  t.equal(await read({ [FORMER_KEY]: sealed(FORMER_KEY, 1) }), 1)
  t.equal(await read({ [KEY]: sealed(KEY, 2), [FORMER_KEY]: sealed(FORMER_KEY, 1) }), 2)
  t.equal(await read({}), undefined)
})

t.test('a checkpoint under its former key must have the seal for that key', async (t) => {
  const read = (objects: Record<string, object>) => readCheckpoint(REF, contextWith(objects))
  t.equal(await read({ [FORMER_KEY]: sealed(KEY, 1) }), undefined)
  t.equal(await read({ [KEY]: sealed(FORMER_KEY, 1) }), undefined)
  t.equal(await read({ [FORMER_KEY]: sealed(FORMER_KEY, 1, 'job-2') }), undefined)
  // A checkpoint of others under the new key is replaced; the former one is not read behind it.
  const forged = { [KEY]: sealed(KEY, 2, 'job-2'), [FORMER_KEY]: sealed(FORMER_KEY, 1) }
  t.equal(await read(forged), undefined)
})

t.test('a shard that is complete under a former checkpoint is not streamed again', async (t) => {
  const snapshot = {
    ...{ shardId: 7, nodeIndex: 0, snapshotName: 's', key: 'nightly/b/docs/shard-7/s' },
    ...{ sizeBytes: 5, sha256: '0'.repeat(64) },
  }
  const content = { uid: 'uid-b', state: 'Whole', fingerprint: 'f', snapshot }
  const sealedAt = (key: string) => addSeal(key, content, { tools: { jobUid: 'job-1' } })
  const read = (objects: Record<string, object>) =>
    readUploaded({ collection: 'docs', shardId: 7 }, 'f', contextWith(objects))
  t.match(await read({ [SHARD_KEY]: sealedAt(SHARD_KEY) }), snapshot)
  t.match(await read({ [FORMER_SHARD_KEY]: sealedAt(FORMER_SHARD_KEY) }), snapshot)
  t.equal(await read({ [FORMER_SHARD_KEY]: sealedAt(SHARD_KEY) }), undefined)
})
