/** A source that does not answer when `migration run` begins. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { freePort } from '../../cluster/process.ts'
import { UNAVAILABLE } from '../../doubles/engine/misbehaviour.ts'
import { instantClock } from '../job-world.ts'
import { createCollection, manyPoints, startEnginePair, type EnginePair } from './engine-pair.ts'

/** Ends the pod once it has reported what it waits for. */
function endedOnceReported({ progress }: EnginePair['world']) {
  const stop = new AbortController()
  const time = instantClock(async () => {
    const current = await progress()
    if (current?.message?.startsWith('waiting') === true) stop.abort(new Error('SIGTERM'))
  })
  return { time, signal: stop.signal }
}

async function unreachable(t: Test): Promise<{ stood: EnginePair; url: string }> {
  const url = `http://127.0.0.1:${await freePort()}`
  const stood = await startEnginePair(t)
  stood.world.plan.source = { url }
  return { stood, url }
}

t.test(
  'a VecMigration whose source cannot be reached waits for it by its URL, and says why',
  async (t) => {
    const { stood, url } = await unreachable(t)
    const { code } = await stood.world.run(endedOnceReported(stood.world))
    t.equal(code, EXIT.crash)
    const progress = await stood.world.progress()
    t.match(progress, { state: 'Started', migration: undefined })
    t.match(
      progress?.message,
      `waiting for the source ${url}: GET ${url}/collections got no answer: connect ECONNREFUSED`,
    )
  },
)

t.test(
  'a managed source that cannot be reached is called by the name of its cluster',
  async (t) => {
    const { stood } = await unreachable(t)
    const cluster = { namespace: 'ns', name: 'a', replicas: 1, tls: false }
    stood.world.plan.source = { cluster }
    stood.target.node.misbehave(({ path }) => (path[0] === 'collections' ? UNAVAILABLE : undefined))
    await stood.world.run(endedOnceReported(stood.world))
    t.match(
      (await stood.world.progress())?.message,
      /^waiting for the source cluster ns\/a: GET .* 503/,
    )
  },
)

t.test(
  'when the source is gone for the next pod, the report still has what was copied',
  async (t) => {
    const { stood, url } = await unreachable(t)
    const { source, world } = stood
    await createCollection(source, 'docs', manyPoints(3))
    world.plan.source = { url: source.url }
    const ended = new AbortController()
    stood.target.node.misbehave(({ method, path }) => {
      if (method === 'PUT' && path[2] === 'points') ended.abort(new Error('SIGTERM'))
      return undefined
    })
    await world.run({ signal: ended.signal })
    const { position } = await world.result()
    t.match(position, { collection: 'docs' })
    world.plan.source = { url }
    await world.run({ ...endedOnceReported(world), pod: 'pod-2' })
    t.match((await world.progress())?.message, /^waiting for the source/)
    t.strictSame((await world.result()).position, position)
  },
)
