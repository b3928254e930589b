/** What ends a round, and which nodes the suite restarts as a user would. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { defectAtStart, engineDefect, PAUSE_MS, Watch } from './watch.ts'

const node = (thread: string, err?: string) => ({
  consensus_thread_status: { consensus_thread_status: thread, ...(err !== undefined && { err }) },
})
const DEFECT = 'Service internal error: Shard 10 does not exist'
const BANNER = 'Version: 1.18.3, build: 0000000\n'
const FAILED = 'Failed to handle committed entries'
/** Number of observations after the first one during which a hung node is left alone. */
const SPARED = 3
const HUNG_MS = SPARED * PAUSE_MS

t.test(
  'a known defect of the engine is distinguished from other errors of the consensus',
  async (t) => {
    t.equal(engineDefect(node('stopped_with_err', DEFECT)), DEFECT)
    t.equal(engineDefect(node('stopped_with_err', 'No space left on device')), undefined)
    t.equal(engineDefect(node('stopped_with_err')), undefined)
    t.equal(engineDefect(node('working', DEFECT)), undefined)
  },
)

t.test('a process that cannot start because of a known defect is found by its log', async (t) => {
  const failed = failedStart(DEFECT)
  t.equal(defectAtStart(failed), 'Shard 10 does not exist')
  t.equal(defectAtStart(failedStart('No space left on device')), undefined)
  t.equal(
    defectAtStart(`${BANNER}${DEFECT}`),
    undefined,
    'it was reported by a process that started',
  )
  t.equal(defectAtStart(`${failed}${BANNER}`), undefined, 'the next process may start')
  t.equal(defectAtStart(''), undefined)
})

t.test('nodes that all fail to start because of a known defect end the round', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: false, isSilent: true, log: failedStart('No space left on device'), ...node('') },
    { isReady: false, isSilent: true, log: failedStart(DEFECT), ...node('') },
  ])
  const { watch, killed, look, stop } = watched(nodes)
  await look()
  t.equal(await watch.broken, 'Shard 10 does not exist')
  await stop()
  t.strictSame(killed, [])
})

t.test('the log of a node that answers says nothing about its state', async (t) => {
  const nodes = await nodesOf(t, [{ isReady: true, log: failedStart(DEFECT), ...node('working') }])
  const { watch, look, stop } = watched(nodes)
  let isBroken = false
  void watch.broken.then(() => {
    isBroken = true
  })
  await look(2 * SPARED)
  await stop()
  t.notOk(isBroken)
})

t.test('a node that is not ready since an error stopped its consensus is restarted', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, ...node('working') },
    { isReady: false, ...node('stopped_with_err', FAILED) },
  ])
  const { watch, killed, look, stop } = watched(nodes)
  await look(SPARED)
  t.strictSame(killed, [], 'a node may recover for a while')
  await look()
  t.strictSame(killed, [1])
  await look(2 * SPARED)
  await stop()
  t.strictSame(killed, [1], 'once: its next process works')
  t.equal(watch.stoppedSince, Infinity, 'and from then on every node works')
  t.equal(watch.hung, 1)
})

t.test('a node is restarted when its consensus is the only one and has stopped', async (t) => {
  const nodes = await nodesOf(t, [{ isReady: false, ...node('stopped_with_err', FAILED) }])
  const { killed, look, stop } = watched(nodes)
  await look(SPARED + 1)
  await stop()
  t.strictSame(killed, [0])
})

t.test('a node that starts, was removed or restarted meanwhile is not restarted', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, commit: 9, ...node('working') },
    { isReady: false, commit: 2, ...node('working') },
    { isReady: true, commit: 9, ...node('stopped') },
    { isReady: false, commit: 2, ...node('stopped_with_err', FAILED) },
  ])
  const { watch, killed, look, stop } = watched(nodes)
  for (let restarts = 0; restarts < 3; restarts += 1) {
    await look(SPARED)
    nodes[3].pid += 1
  }
  await stop()
  t.strictSame(killed, [])
  t.equal(watch.hung, 0)
})

t.test('a node with a known defect of the engine ends the round instead', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, ...node('working') },
    { isReady: false, ...node('stopped_with_err', DEFECT) },
  ])
  const { watch, killed, look, stop } = watched(nodes)
  await look(2)
  t.equal(await watch.broken, DEFECT)
  t.equal(watch.stoppedSince, START, 'since the first look')
  await look(2 * SPARED)
  await stop()
  t.strictSame(killed, [])
})

/** What a process writes that panics when it applies an entry of the consensus. */
function failedStart(cause: string): string {
  return (
    `${BANNER}2026-01-01T00:00:00Z ERROR qdrant::startup: Panic occurred in file src/main.rs: ` +
    `Can't initialize consensus: Failed to apply collection meta operation entry\n\nCaused by:\n    ${cause}\n`
  )
}

interface FakeNode extends ReturnType<typeof node> {
  isReady: boolean
  commit?: number
  /** Its process does not run. */
  isSilent?: boolean
  log?: string
}

interface Process {
  url: string
  pid: number
  log: string
}

/** Nodes that answer as the engine does, without collections. */
async function nodesOf<T extends FakeNode[]>(t: Test, [...nodes]: [...T]) {
  const folder = t.testdir()
  const started = await Promise.all(
    nodes.map(async (fake, peer_id) => {
      const log = join(folder, String(peer_id))
      writeFileSync(log, fake.log ?? '')
      const state = { ...fake, log, url: '', pid: 1 }
      const server = createServer((request, response) => {
        if (fake.isSilent === true) {
          request.destroy()
          return
        }
        const result =
          request.url === '/cluster'
            ? {
                ...{ peer_id, peers: {}, consensus_thread_status: state.consensus_thread_status },
                raft_info: { commit: state.commit ?? 5, pending_operations: 0, leader: 0 },
              }
            : { collections: [] }
        response.end(JSON.stringify({ result }))
      })
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      t.teardown(() => server.close())
      state.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
      return state
    }),
  )
  return started as { [K in keyof T]: FakeNode & Process }
}

const START = Date.parse('2030-01-01T00:00:00Z')

/** Time that passes between two looks only, and as soon as a test asks for the next one. */
function lookTime() {
  let now = START
  let isBetween = Promise.withResolvers<undefined>()
  let next = Promise.withResolvers<undefined>()
  return {
    now: () => now,
    sleep: async (ms: number) => {
      isBetween.resolve(undefined)
      await next.promise
      next = Promise.withResolvers()
      now += ms
    },
    /** Resolves after this many further observations. */
    look: async (times = 1) => {
      for (let count = 0; count < times; count += 1) {
        await isBetween.promise
        isBetween = Promise.withResolvers()
        next.resolve(undefined)
      }
      await isBetween.promise
    },
    end: () => next.resolve(undefined),
  }
}

/** A node that is killed works again and is ready in its next process. */
function watched(nodes: (FakeNode & Process)[]) {
  const killed: number[] = []
  const at = (ordinal: number) => {
    const found = nodes[ordinal]
    if (found === undefined) throw new Error(`there is no node ${ordinal}`)
    return found
  }
  const world = {
    nodes: nodes.length,
    ordinals: () => [...nodes.keys()],
    isReady: (ordinal: number) => at(ordinal).isReady,
    node: (ordinal: number) => ({
      url: at(ordinal).url,
      pid: at(ordinal).pid,
      log: at(ordinal).log,
      signal: () => {
        killed.push(ordinal)
        Object.assign(at(ordinal), { pid: at(ordinal).pid + 1, isReady: true, ...node('working') })
      },
    }),
  }
  const time = lookTime()
  const watch = new Watch(world, time, HUNG_MS)
  const stop = async () => {
    const stopped = watch.stop()
    time.end()
    await stopped
  }
  return { watch, killed, look: time.look, stop }
}
