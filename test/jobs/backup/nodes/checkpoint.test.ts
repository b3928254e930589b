/** Checkpoints that a pod leaves for the next one: what they hold, and what is believed of them. */
import t from 'tap'
import {
  collectionKey,
  nodeCheckpointKey,
  snapshotKey,
} from '../../../../crds/contract/backup-keys.ts'
import { NodeCollection } from '../../../../crds/contract/manifest.ts'
import {
  deleteStaleObject,
  readCheckpoint,
  writeCheckpoint,
  type Checkpoint,
} from '../../../../jobs/backup/nodes/checkpoint.ts'
import {
  readCompletedCollection,
  writeCompletedCollection,
} from '../../../../jobs/backup/completed-collection.ts'
import {
  recordUndeletedSnapshot,
  type RunContext,
  type UndeletedSnapshot,
} from '../../../../jobs/backup/context.ts'
import { addSeal } from '../../../../jobs/backup/objects.ts'

const FOLDER = 'nightly/b/'
const REF = { collection: 'docs', ordinal: 0 }
const BEGUN: Checkpoint = { uid: 'uid-b', round: 1, state: 'Begun' }
const PENDING: Checkpoint = {
  ...{ uid: 'uid-b', round: 1, state: 'Pending' },
  ...{ at: '2030-01-01T00:00:00Z', existing: [] },
}
const SNAPSHOT = {
  ...{ nodeIndex: 0, key: 'nightly/b/docs/node-0/s', snapshotName: 's', sizeBytes: 5 },
  ...{ sha256: '0'.repeat(64), localShards: [] },
}
const DOCS: NodeCollection = {
  ...{
    name: 'docs',
    config: { params: {} },
    payloadIndexes: {},
    aliases: [],
    shardKeys: [],
    shards: [],
  },
  snapshots: [SNAPSHOT],
}
/** Two files on one node, one on another node, one of another collection. */
const FILES: UndeletedSnapshot[] = [
  { collection: 'docs', ordinal: 0, description: 'one' },
  { collection: 'docs', ordinal: 0, description: 'two' },
  { collection: 'docs', ordinal: 1, description: 'other node' },
  { collection: 'logs', ordinal: 0, description: 'other collection' },
]

/** A run of Job `job-1` against a bucket of plain JSON. */
function run(objects = new Map<string, object>(), undeletedSnapshots: UndeletedSnapshot[] = []) {
  const calls: string[] = []
  const context = {
    ...{ folder: FOLDER, undeletedSnapshots },
    plan: { uid: 'uid-b', cluster: { replicas: 2 } },
    bucket: {
      getJson: async (key: string) => objects.get(key),
      putJson: async (key: string, content: object) => void objects.set(key, content),
      size: async () => 5,
      openUploads: async (key: string) => [
        { key: `${key}2`, id: 'longer' },
        { key, id: 'own' },
      ],
      abortUpload: async ({ key, id }: { key: string; id: string }) =>
        void calls.push(`abort ${key} ${id}`),
      delete: async (keys: string[]) => void calls.push(`delete ${keys.join()}`),
    },
    tools: { jobUid: 'job-1', log: { warn: () => undefined, info: () => undefined } },
  }
  return { context: context as unknown as RunContext, objects, calls }
}

t.test('a file that may be left on a node is recorded once', async (t) => {
  const { context } = run()
  const [one, two] = FILES
  if (one === undefined || two === undefined) throw new Error('there are no files')
  for (const file of [one, { ...one }, two]) recordUndeletedSnapshot(context, file)
  t.strictSame(context.undeletedSnapshots, [one, two])
})

t.test('a checkpoint has the files of its node and collection only', async (t) => {
  const first = run(undefined, FILES)
  await writeCheckpoint(REF, BEGUN, first.context)
  const key = nodeCheckpointKey(FOLDER, 'docs', 0)
  const content = { ...BEGUN, leftBehind: ['one', 'two'] }
  t.strictSame(first.objects.get(key), addSeal(key, content, { tools: { jobUid: 'job-1' } }))

  const next = run(first.objects)
  t.match(await readCheckpoint(REF, next.context), content)
  t.strictSame(next.context.undeletedSnapshots, FILES.slice(0, 2))
})

t.test('a checkpoint without such files has no list of them', async (t) => {
  const { context, objects } = run()
  await writeCheckpoint(REF, BEGUN, context)
  const key = nodeCheckpointKey(FOLDER, 'docs', 0)
  t.strictSame(objects.get(key), addSeal(key, BEGUN, { tools: { jobUid: 'job-1' } }))
})

t.test('a completed collection has the files of all its nodes', async (t) => {
  const first = run(undefined, FILES)
  await writeCompletedCollection(DOCS, first.context)
  const next = run(first.objects)
  t.strictSame(await readCompletedCollection(NodeCollection, 'docs', next.context), DOCS)
  t.strictSame(next.context.undeletedSnapshots, FILES.slice(0, 3))
})

t.test('a completed collection without such files records none', async (t) => {
  const first = run()
  await writeCompletedCollection(DOCS, first.context)
  t.notOk('leftBehind' in (first.objects.get(collectionKey(FOLDER, 'docs')) ?? {}))
  const next = run(first.objects)
  t.strictSame(await readCompletedCollection(NodeCollection, 'docs', next.context), DOCS)
  t.strictSame(next.context.undeletedSnapshots, [])
})

t.test(
  'a collection is completed only by this backup, under this seal, of this form',
  async (t) => {
    const key = collectionKey(FOLDER, 'docs')
    const whole = { uid: 'uid-b', collection: DOCS }
    const sealed = (content: object, jobUid = 'job-1') =>
      addSeal(key, content, { tools: { jobUid } })
    const read = async (content: object) =>
      readCompletedCollection(NodeCollection, 'docs', run(new Map([[key, content]])).context)
    t.strictSame(await read(sealed(whole)), DOCS)
    t.equal(await read(whole), undefined, 'no seal')
    t.equal(await read(sealed(whole, 'job-2')), undefined, 'the seal of another Job')
    t.equal(await read(sealed({ ...whole, uid: 'uid-other' })), undefined, 'another backup')
    t.equal(
      await read(sealed({ ...whole, collection: { name: 'docs' } })),
      undefined,
      'no snapshots',
    )
    t.equal(await read(sealed({ ...whole, leftBehind: [{ ordinal: 0 }] })), undefined, 'a bad list')
    const larger = { ...DOCS, snapshots: [SNAPSHOT, { ...SNAPSHOT, sizeBytes: 6 }] }
    t.equal(
      await read(sealed({ ...whole, collection: larger })),
      undefined,
      'an object of another size',
    )
  },
)

t.test('objects of an earlier attempt are deleted by their exact keys', async (t) => {
  const deletedFor = async (checkpoint: Checkpoint) => {
    const { context, calls } = run()
    await deleteStaleObject(REF, checkpoint, context)
    return calls
  }
  const key = snapshotKey(FOLDER, 'docs', 0, 's')
  const calls = [`abort ${key} own`, `delete ${key}`]
  t.strictSame(await deletedFor(BEGUN), [])
  t.strictSame(await deletedFor(PENDING), [], 'the engine had not named it')
  t.strictSame(await deletedFor({ ...PENDING, snapshotName: 's' }), calls)
  const uploaded = { state: 'Whole', fingerprint: 'f', snapshot: SNAPSHOT } as const
  t.strictSame(await deletedFor({ uid: 'uid-b', round: 1, ...uploaded }), calls)
})
