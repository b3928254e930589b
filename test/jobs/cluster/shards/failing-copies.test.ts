/** Copies that always fail, to any of the nodes: plans end, and do what is possible without them. */
import fc from 'fast-check'
import t from 'tap'
import { planShards } from '../../../../jobs/cluster/shards/plan.ts'
import type { Plan, Step } from '../../../../jobs/cluster/shards/step.ts'
import { Transfers } from '../../../../jobs/cluster/shards/transfers.ts'
import type { ClusterView, ReplicaState } from '../../../../jobs/cluster/shards/view.ts'
import { DESIRED, viewOf, type Model } from './model.ts'

type Copy = Extract<Step, { do: 'replicate' | 'repair' }>

/** How copies to a node end. A rejected one creates no replica. */
type Outcome = 'done' | 'failed' | 'rejected'

interface Case {
  model: Model
  /** By peer. */
  outcomes: Record<number, Outcome>
  /** Nodes that stay. */
  nodes: number
}

/** As in the Job (perform-step.ts). */
const MAX_FAILURES = 3
const MAX_STEPS = 400

const SHARDS = ['docs/0', 'docs/1', 'docs/2']

const cases: fc.Arbitrary<Case> = fc
  .record({
    pods: fc.integer({ min: 2, max: 5 }),
    factor: fc.integer({ min: 2, max: 3 }),
    removed: fc.constantFrom(0, 0, 1),
    seeds: fc.array(fc.array(fc.nat(5), { minLength: 5, maxLength: 5 }), {
      ...{ minLength: 1, maxLength: SHARDS.length },
    }),
    outcomes: fc.array(fc.constantFrom<Outcome[]>('done', 'failed', 'rejected'), {
      ...{ minLength: 5, maxLength: 5 },
    }),
  })
  .map(({ pods, factor, removed, seeds, outcomes }) => {
    const ids = Array.from({ length: pods }, (_, index) => index + 1)
    const states: (ReplicaState | undefined)[] = ['Active', 'Active', 'Dead', 'Incomplete']
    const shards = seeds.map((seed, index) => {
      const source = (seed[0] ?? 0) % pods
      const replicas = ids.flatMap((id, peer) => {
        const state = peer === source ? 'Active' : states[seed[peer] ?? 0]
        return state === undefined ? [] : [[id, state] as const]
      })
      return [SHARDS[index] ?? '', Object.fromEntries(replicas)] as const
    })
    const peers = Object.fromEntries(ids.map((id) => [id, { ordinal: id - 1, isUp: true }]))
    return {
      model: { pods, peers, shards: Object.fromEntries(shards), transfers: {}, factor, moves: [] },
      outcomes: Object.fromEntries(ids.map((id) => [id, outcomes[id - 1] ?? 'done'])),
      nodes: Math.max(1, pods - removed),
    }
  })

/** One Job without limits of time. */
function runJob({ model, outcomes, nodes }: Case, transfers: Transfers) {
  const current = structuredClone(model)
  const copies = new Map<string, number>()
  let plan: Plan = { is: 'done' }
  for (let steps = 0; steps < MAX_STEPS; steps += 1) {
    const view = viewOf(current)
    transfers.observe(view, steps)
    plan = planShards(view, {
      ...{ ...DESIRED, nodes, allowsFewerReplicas: true, moves: current.moves },
      ...transfers.closed,
      copyFailure: (shard) => transfers.failureOf(shard),
    })
    if (plan.is !== 'step') return { plan, view, copies, ended: true }
    const { step } = plan
    const before = activeReplicas(view)
    if (step.do === 'replicate' || step.do === 'repair') {
      const key = `${step.collection}/${step.shard}/${step.to}`
      copies.set(key, (copies.get(key) ?? 0) + 1)
      if (!copy(current, step, outcomes, transfers)) return { plan, view, copies, ended: true }
    } else if (step.do === 'drop') {
      const shard = `${step.collection}/${step.shard}`
      current.shards[shard] = without(current.shards[shard] ?? {}, step.peer)
      const after = activeReplicas(viewOf(current))
      const needed = Math.min(model.factor, nodes)
      for (const [shard, count] of after) {
        if (count < Math.min(before.get(shard) ?? 0, needed)) throw new Error(`${shard} lost one`)
      }
    } else if (step.do === 'removePeer') current.peers = without(current.peers, step.peer)
    else if (step.do === 'scaleDown') current.pods = step.nodes
    else return { plan, view, copies, ended: true }
  }
  return { plan, view: viewOf(current), copies, ended: false }
}

/** False if the Job ends with it. */
function copy(model: Model, step: Copy, outcomes: Case['outcomes'], transfers: Transfers): boolean {
  const isMove = step.do === 'replicate' && step.move !== undefined
  const replicas = model.shards[`${step.collection}/${step.shard}`] ?? {}
  transfers.start(step, { bytes: 1, now: 0, isCreation: step.do === 'replicate' && !isMove })
  const outcome = outcomes[step.to] ?? 'done'
  if (step.do === 'replicate' && step.move !== undefined) model.moves.push(step.move)
  if (outcome === 'done') {
    replicas[step.to] = 'Active'
    transfers.observe(viewOf(model), 0)
    return true
  }
  if (outcome === 'failed') {
    transfers.confirm(step)
    replicas[step.to] = 'Dead'
  }
  const failures = transfers.fail(step)
  if (transfers.isUnfillable(step)) transfers.close(step, 'unfillable')
  if (failures < MAX_FAILURES) return true
  if (isMove && outcome === 'failed') {
    transfers.close(step, 'a move failed')
    return true
  }
  return !isMove && transfers.giveUp(step, 'given up')
}

function without<T>(all: Record<number, T>, id: number): Record<number, T> {
  return Object.fromEntries(Object.entries(all).filter(([key]) => Number(key) !== id))
}

function activeReplicas({ collections }: ClusterView): Map<string, number> {
  return new Map(
    collections.flatMap(({ name, shards }) =>
      shards.map(({ id, replicas }) => [
        `${name}/${id}`,
        replicas.filter(({ state }) => state === 'Active').length,
      ]),
    ),
  )
}

t.test('a Job ends, and repeats no copy of a shard to a node without end', (t) => {
  fc.assert(
    fc.property(cases, (generated) => {
      const { ended, copies } = runJob(generated, new Transfers([], 0))
      const vain = [...copies].filter(
        ([key]) => generated.outcomes[Number(key.slice(key.lastIndexOf('/') + 1))] !== 'done',
      )
      // Of a repair, and of a move to the same node after its replica was dropped as surplus.
      return ended && vain.every(([, count]) => count <= 2 * MAX_FAILURES)
    }),
    { numRuns: 3000 },
  )
  t.end()
})

t.test('a shard gets its replicas if enough nodes take copies', (t) => {
  fc.assert(
    fc.property(cases, (generated) => {
      const { model, outcomes } = generated
      const transfers = new Transfers([], 0)
      const { view } = runJob({ ...generated, nodes: model.pods }, transfers)
      const active = activeReplicas(view)
      return Object.entries(model.shards).every(([shard, replicas]) => {
        const able = Object.keys(model.peers).filter(
          (id) => replicas[Number(id)] === 'Active' || outcomes[Number(id)] === 'done',
        )
        return (active.get(shard) ?? 0) >= Math.min(model.factor, able.length)
      })
    }),
    { numRuns: 3000 },
  )
  t.end()
})

t.test('a node without replicas is removed whatever copies fail', (t) => {
  fc.assert(
    fc.property(cases, ({ model, outcomes }) => {
      const last = model.pods
      const shards = Object.fromEntries(
        Object.entries(model.shards).map(([shard, replicas]) => {
          const { [last]: _, ...others } = replicas
          return [shard, { ...others, 1: 'Active' as const }]
        }),
      )
      const empty = { ...model, shards }
      const { view } = runJob(
        { model: empty, outcomes, nodes: Math.max(1, last - 1) },
        new Transfers([], 0),
      )
      return view.nodes === Math.max(1, last - 1)
    }),
    { numRuns: 2000 },
  )
  t.end()
})
