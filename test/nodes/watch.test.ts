/** What ends a round, and which nodes the suite restarts as a user would. */
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { defectAtStart, engineDefect, Watch } from './watch.ts'

const node = (thread: string, err?: string) => ({
  consensus_thread_status: { consensus_thread_status: thread, ...(err !== undefined && { err }) },
})
const DEFECT = 'Service internal error: Shard 10 does not exist'
const BANNER = 'Version: 1.18.3, build: 0000000\n'
const FAILED = 'Failed to handle committed entries'
const HUNG_MS = 1_500
/** Longer than a hung node is left alone, with the time between two looks. */
const WATCHED_MS = 4_000

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
  const { watch, killed } = watched(nodes)
  t.equal(await watch.broken, 'Shard 10 does not exist')
  await watch.stop()
  t.strictSame(killed, [])
})

t.test('the log of a node that answers says nothing about its state', async (t) => {
  const nodes = await nodesOf(t, [{ isReady: true, log: failedStart(DEFECT), ...node('working') }])
  const { watch } = watched(nodes)
  let isBroken = false
  void watch.broken.then(() => {
    isBroken = true
  })
  await pause(WATCHED_MS)
  await watch.stop()
  t.notOk(isBroken)
})

t.test('a node that is not ready since an error stopped its consensus is restarted', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, ...node('working') },
    { isReady: false, ...node('stopped_with_err', FAILED) },
  ])
  const { watch, killed } = watched(nodes)
  await pause(HUNG_MS / 2)
  t.strictSame(killed, [], 'a node may recover for a while')
  await pause(WATCHED_MS)
  await watch.stop()
  t.strictSame(killed, [1], 'once: its next process works')
  t.equal(watch.stoppedSince, Infinity, 'and from then on every node works')
  t.equal(watch.hung, 1)
})

t.test('a node is restarted when its consensus is the only one and has stopped', async (t) => {
  const nodes = await nodesOf(t, [{ isReady: false, ...node('stopped_with_err', FAILED) }])
  const { watch, killed } = watched(nodes)
  await pause(WATCHED_MS)
  await watch.stop()
  t.strictSame(killed, [0])
})

t.test('a node that starts, was removed or restarted meanwhile is not restarted', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, commit: 9, ...node('working') },
    { isReady: false, commit: 2, ...node('working') },
    { isReady: true, commit: 9, ...node('stopped') },
    { isReady: false, commit: 2, ...node('stopped_with_err', FAILED) },
  ])
  const { watch, killed } = watched(nodes)
  const restarts = setInterval(() => {
    nodes[3].pid += 1
  }, HUNG_MS / 2)
  await pause(WATCHED_MS)
  clearInterval(restarts)
  await watch.stop()
  t.strictSame(killed, [])
  t.equal(watch.hung, 0)
})

t.test('a node with a known defect of the engine ends the round instead', async (t) => {
  const nodes = await nodesOf(t, [
    { isReady: true, ...node('working') },
    { isReady: false, ...node('stopped_with_err', DEFECT) },
  ])
  const from = Date.now()
  const { watch, killed } = watched(nodes)
  t.equal(await watch.broken, DEFECT)
  t.ok(watch.stoppedSince >= from)
  t.ok(watch.stoppedSince <= Date.now())
  await pause(WATCHED_MS)
  await watch.stop()
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
  return { watch: new Watch(world, HUNG_MS), killed }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
