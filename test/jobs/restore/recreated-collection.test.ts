/** Another client deletes a collection during its restore and creates its own: nothing of that one is touched. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { ask } from './collection-state.ts'
import { isRecovery, restoreFixture, run, type RestoreFixture } from './restore-fixture.ts'

const ERROR =
  'collection docs was deleted and created again by another client during the restore: delete it or restore under another name, and create the VecRestore again'

/** The collection of another client, with one point of its own. */
async function recreate({ engine, urls }: RestoreFixture): Promise<void> {
  engine.removeCollection('docs')
  engine.createCollection('docs', 3, 2)
  const points = [{ id: 4711, vector: {}, payload: { owner: 'another client' } }]
  await ask(urls[0] ?? '', 'PUT', '/collections/docs/points?wait=true', { points })
}

/** Kills the first pod at a call, lets the other client act, and runs the next pod. */
async function killedThenRecreated(
  t: Test,
  where: string,
  isKilled: (path: string[], method: string, ordinal: number) => boolean,
): Promise<void> {
  t.test(`a pod is killed ${where}: the next one fails and changes nothing`, async (t) => {
    const fixture = await restoreFixture(t)
    const { world, deleteCollections, nodes, currentState } = fixture
    deleteCollections('docs')
    const restore = await world.restore()
    const controller = new AbortController()
    nodes.forEach((node, ordinal) =>
      node.misbehave((request) => {
        if (request.path.at(-1) === 'recover' && !isRecovery(request)) return undefined
        if (!isKilled(request.path, request.method, ordinal)) return undefined
        controller.abort(new Error('SIGTERM'))
        return { cut: 'after' }
      }),
    )
    t.equal((await run(restore, { signal: controller.signal })).code, EXIT.crash)
    await recreate(fixture)
    const foreign = await currentState('docs')
    const changes: string[] = []
    for (const node of nodes) {
      node.misbehave((request) => {
        const { method, path } = request
        if (method === 'DELETE' || method === 'PATCH' || isRecovery(request)) {
          changes.push(`${method} ${path.join('/')}`)
        }
        return undefined
      })
    }
    t.equal((await run(restore, { pod: 'pod-2' })).code, EXIT.failed)
    t.match(await restore.result(), { collections: [{ status: 'Failed', error: ERROR }] })
    t.strictSame(changes, [])
    t.strictSame(await currentState('docs'), foreign)
  })
}

await killedThenRecreated(
  t,
  'while it creates the collection',
  (path, method) => method === 'PUT' && path.join('/') === 'collections/docs',
)
await killedThenRecreated(
  t,
  'at the recovery of the third node',
  (path, _, ordinal) => ordinal === 2 && path.at(-1) === 'recover',
)

t.test('a collection that is recreated before the last check is not Completed', async (t) => {
  const { world, engine, deleteCollections, nodes } = await restoreFixture(t)
  deleteCollections('docs')
  let isRecreated = false
  nodes[0]?.misbehave(({ path }) => {
    if (isRecreated || path.at(-1) !== 'count') return undefined
    isRecreated = true
    engine.removeCollection('docs')
    engine.createCollection('docs', 3, 2)
    return undefined
  })
  const restore = await world.restore()
  t.equal((await run(restore)).code, EXIT.failed)
  const { collections } = (await restore.result()) as { collections: { error?: string }[] }
  t.match(collections[0]?.error, ERROR)
  t.ok(isRecreated)
  t.ok(engine.collections.has('docs'))
})
