/** A pod of `cluster shards` that another pod has replaced changes nothing after that. */
import t, { type Test } from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import type { ShardsPlan } from '../../../../crds/contract/shards-job.ts'
import type { EngineRequest } from '../../../doubles/engine/answers.ts'
import { takeOver, TAKEN_OVER } from '../../job-world.ts'
import { fill, numbers } from './resharding-contents.ts'
import { shardsWorld, type ShardsWorld } from './shards-world.ts'

t.setTimeout(300_000)

interface Overtaking {
  parts: Partial<ShardsPlan>
  /** `step`: the text of the last step that has started. */
  isMeant: (request: EngineRequest, step: string) => boolean
  onStep?: (step: string) => void
  onSleep?: (seconds: number) => void
  speed?: number
}

/** Another pod takes the Job over during a request. Returns the changes that the first one asks nodes for after that. */
async function overtaken(
  t: Test,
  world: ShardsWorld,
  { parts, isMeant, onStep, onSleep = () => world.finishTransfers(), speed = 1 }: Overtaking,
): Promise<string[]> {
  let done: Promise<void> | undefined
  let step = ''
  const later: string[] = []
  for (const node of world.nodes.values()) {
    node.misbehave((request) => {
      const { method, path, body } = request
      if (done !== undefined && isChange(request)) {
        later.push(`${method} ${path.join('/')} ${JSON.stringify(body)}`)
      }
      if (done !== undefined || !isMeant(request, step)) return undefined
      done = takeOver(world.api, { kind: 'VecCluster', name: 'a' })
      return { until: done }
    })
  }
  const onLine = (line: string) => {
    const started = /step started step="?(.*?)"? purpose/.exec(line)?.[1]
    if (started === undefined) return
    step = started
    onStep?.(step)
  }
  const { code, log } = await world.run(parts, { onSleep, onLine, speed })
  t.ok(done, log.slice(-2000))
  t.match(log, TAKEN_OVER)
  t.equal(code, EXIT.crash)
  return later
}

function isChange({ method, path }: EngineRequest): boolean {
  return method !== 'GET' && path.at(-1) !== 'count'
}

t.test('a pod that is replaced while it removes a peer deletes no pod', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 3 })
  const former = world.peer(2)
  await world.loseVolume(2)
  const podUid = async () =>
    (await world.api.get({ apiVersion: 'v1', kind: 'Pod', namespace: 'ns', name: 'vec-a-2' }))
      ?.metadata.uid
  const before = await podUid()
  const parts = { lost: [former] }
  const isMeant = ({ method, path }: EngineRequest) => method === 'DELETE' && path[1] === 'peer'
  t.strictSame(await overtaken(t, world, { parts, isMeant }), [])
  const pod = await world.api.get({
    apiVersion: 'v1',
    kind: 'Pod',
    namespace: 'ns',
    name: 'vec-a-2',
  })
  t.equal(await podUid(), before)
  t.equal(pod?.metadata.deletionTimestamp, undefined)
})

function copiesOf(world: ShardsWorld) {
  return Object.entries(world.engine.find('docs')?.copies ?? {})
}

const isCount = ({ path }: EngineRequest) => path.at(-1) === 'count'

t.test('a pod that is replaced while it counts copied points aborts nothing', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const later = await overtaken(t, world, {
    parts: numbers(3),
    isMeant: (request, step) => isCount(request) && step.includes('reading from the new shards'),
    onSleep() {
      world.finishTransfers()
      for (const [key, points] of copiesOf(world)) if (key.startsWith('2/')) points.length = 0
    },
  })
  t.strictSame(later, [])
})

t.test('a pod that is replaced while it counts cleaned points commits nothing', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const later = await overtaken(t, world, {
    parts: numbers(3),
    isMeant: (request, step) => isCount(request) && step.includes('writing to the new shards only'),
  })
  t.strictSame(later, [])
})

t.test('a pod that is replaced while it checks a replica cleans nothing', async (t) => {
  const world = await shardsWorld(t, { nodes: 3, shards: 2, factor: 1 })
  fill(world)
  const later = await overtaken(t, world, {
    parts: numbers(3),
    isMeant: (request, step) => isCount(request) && step.includes('checking the replica'),
    onStep(step) {
      const collection = world.engine.find('docs')
      if (collection === undefined || !step.includes('checking the replica')) return
      // Every replica has the points of the other shards, too.
      const keys = collection.shards.flatMap(({ id, peers }) =>
        peers.map((peer) => `${id}/${peer}`),
      )
      collection.copies = Object.fromEntries(keys.map((key) => [key, [...collection.points]]))
    },
  })
  t.strictSame(later, [])
})

t.test('a pod that is replaced while it observes the cluster aborts no transfer', async (t) => {
  /** Seconds that have passed when a transfer without progress is aborted. */
  let abortedAt = 0
  for (const isOvertaken of [false, true]) {
    const world = await shardsWorld(t, { nodes: 3, spread: 2, shards: 6, factor: 1 })
    world.engine.transferOutcome = () => 'stall'
    let seconds = 0
    const onSleep = (passed: number) => {
      seconds = passed
    }
    const parts = { balance: true }
    if (isOvertaken) {
      const isMeant = ({ method }: EngineRequest) => method === 'GET' && seconds === abortedAt
      t.strictSame(await overtaken(t, world, { parts, isMeant, onSleep, speed: 10 }), [])
      continue
    }
    const onLine = (line: string) => {
      if (line.includes('aborting a transfer')) abortedAt = seconds
    }
    await world.run(parts, { onSleep, onLine, speed: 10 })
    t.ok(abortedAt > 0)
  }
})
