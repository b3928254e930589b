/** What is known about the size of a shard before it is streamed. */
import { pino } from 'pino'
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import { ShardSizes, type RunContext } from '../../../jobs/backup/context.ts'

/** Vector bytes of shards 0, 1, ... of docs on each node; an error: the node has no telemetry. */
function contextOf(nodes: (number[] | Error)[], signal = new AbortController().signal) {
  const state = { now: 0, calls: 0 }
  const telemetry = (sizes: number[]) => ({
    collections: {
      collections: [
        {
          id: 'docs',
          shards: sizes.map((bytes, id) => ({
            ...{ id, local: { vectors_size_bytes: bytes, payloads_size_bytes: 0 } },
          })),
        },
      ],
    },
  })
  const context = {
    plan: { cluster: { replicas: nodes.length } },
    tools: {
      ...{ signal, log: pino({ level: 'silent' }), time: { monotonicMs: () => state.now } },
      engineForPod: (_: unknown, ordinal: number) => ({
        call: async () => {
          state.calls += 1
          const found = nodes[ordinal]
          if (found instanceof Error) throw found
          return telemetry(found ?? [])
        },
      }),
    },
  }
  return { state, context: context as unknown as RunContext }
}

t.test('the largest replica counts, and a node without telemetry is left out', async (t) => {
  const { context } = contextOf([[10, 30], new EngineError('no telemetry'), [20, 5]])
  const sizes = new ShardSizes()
  t.equal(await sizes.estimate('docs', 0, context), 20)
  t.equal(await sizes.estimate('docs', 1, context), 30)
  t.equal(await sizes.estimate('docs', 2, context), undefined)
  t.equal(await sizes.estimate('other', 0, context), undefined)
})

t.test('the size of a shard that was larger than estimated is unknown from then on', async (t) => {
  const { context } = contextOf([[10, 20]])
  const sizes = new ShardSizes()
  sizes.markUnderestimated('docs', 1)
  sizes.markUnderestimated('docs', 3)
  t.equal(await sizes.estimate('docs', 1, context), undefined)
  t.equal(await sizes.estimate('docs', 0, context), 10)
  sizes.markUnderestimated('docs', 0)
  t.equal(await sizes.estimate('docs', 0, context), undefined)
  t.equal(await sizes.estimate('docs', 1, context), undefined, 'both are remembered')
})

t.test('nodes are asked again after ten minutes', async (t) => {
  const nodes = [[10]]
  const { context, state } = contextOf(nodes)
  const sizes = new ShardSizes()
  t.equal(await sizes.estimate('docs', 0, context), 10)
  nodes[0] = [500]
  state.now = 599_999
  t.equal(await sizes.estimate('docs', 0, context), 10)
  state.now = 600_000
  t.equal(await sizes.estimate('docs', 0, context), 500)
  t.equal(state.calls, 2)
})

t.test('the end of the Job and errors of other kinds are no missing telemetry', async (t) => {
  const ended = contextOf([new EngineError('cut')], AbortSignal.abort(new Error('SIGTERM')))
  await t.rejects(new ShardSizes().estimate('docs', 0, ended.context), { message: 'SIGTERM' })
  const defect = contextOf([new TypeError('defect')])
  await t.rejects(new ShardSizes().estimate('docs', 0, defect.context), { message: 'defect' })
})
