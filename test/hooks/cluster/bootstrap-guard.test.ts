/** The guard of node 0: its script in a real bash, and the values of a release that carry it. */
import { spawn } from 'node:child_process'
import { renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { withBootstrapGuard } from '../../../hooks/cluster/bootstrap-guard.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { chartValues } from '../../../hooks/cluster/values.ts'
import { applied, cluster, clusterSpec, observed, progress, settings } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'

const KNOWS_ITSELF = { peer_address_by_id: { 1: 'http://vec-a-0.vec-a-headless:6335/' } }
const KNOWS_OTHERS = {
  peer_address_by_id: {
    ...KNOWS_ITSELF.peer_address_by_id,
    2: 'http://vec-a-1.vec-a-headless:6335/',
  },
}

interface Start {
  hostname: string
  /** Content of the record; absent if the ConfigMap does not exist. */
  nodes?: string
  raftState?: object
  /** Port on loopback at which the other nodes answer, or would. */
  port: number
  enableTls?: boolean
}

/** Runs the script of the cluster `a` where all nodes are on loopback; the engine prints what it joins. */
function start(t: Test, { hostname, nodes, raftState, port, enableTls = false }: Start) {
  const folder = t.testdir({
    formation: nodes === undefined ? {} : { nodes },
    storage: raftState === undefined ? {} : { 'raft_state.json': JSON.stringify(raftState) },
    config: {},
  })
  const engine = '#!/bin/bash\necho "started: ${QDRANT_BOOTSTRAP:-alone}"\n'
  const program = join(folder, 'initialize.sh')
  writeFileSync(program, engine, { mode: 0o755 })
  renameSync(program, join(folder, 'config/initialize.sh'))
  const spec = clusterSpec({ replicas: 3, cluster: { enabled: true, p2p: { port, enableTls } } })
  const { args } = withBootstrapGuard({}, cluster({ spec })) as { args: [string] }
  const script = args[0]
    .replaceAll('/qdrant/formation', join(folder, 'formation'))
    .replaceAll('vec-a-$i.vec-a-headless', '127.0.0.1')
  const child = spawn('/bin/bash', ['-c', script], {
    cwd: folder,
    env: { PATH: process.env['PATH'], HOSTNAME: hostname },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  const waiters = new Set<() => void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    for (const check of waiters) check()
  })
  /** Resolves once the output has this text. */
  const printed = (text: string) =>
    new Promise<void>((resolve) => {
      const check = () => {
        if (output.includes(text)) resolve()
      }
      waiters.add(check)
      check()
    })
  const ended = new Promise<string>((resolve) => {
    child.on('close', () => resolve(output))
  })
  return { ended, printed, folder }
}

/** A port on which something listens, as the nodes of a running cluster do. */
async function listening(t: Test): Promise<number> {
  const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
  t.teardown(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/** A port on which nothing listens. */
const SILENT = 1

const STARTS_ALONE: [title: string, start: Omit<Start, 'port'>][] = [
  ['node 1 starts as the chart says', { hostname: 'vec-a-1', nodes: '3' }],
  ['node 10 starts as the chart says', { hostname: 'vec-a-10', nodes: '11' }],
  ['node 0 founds a cluster that was never formed', { hostname: 'vec-a-0' }],
  ['node 0 of a cluster of one founds it again', { hostname: 'vec-a-0', nodes: '1' }],
  ['a record that is no number counts as none', { hostname: 'vec-a-0', nodes: 'three' }],
  [
    'node 0 with a volume that knows the others starts as before',
    { hostname: 'vec-a-0', nodes: '3', raftState: KNOWS_OTHERS },
  ],
]
for (const [title, options] of STARTS_ALONE) {
  t.test(title, async (t) => {
    t.equal(await start(t, { ...options, port: await listening(t) }).ended, 'started: alone\n')
  })
}

for (const [title, raftState] of [
  ['node 0 with an empty volume joins the nodes that are there', undefined],
  ['node 0 that a refused join left a state without others joins too', KNOWS_ITSELF],
] as const) {
  t.test(title, async (t) => {
    const port = await listening(t)
    const options = { hostname: 'vec-a-0', nodes: '3', port, ...(raftState && { raftState }) }
    const { ended } = start(t, options)
    t.match(await ended, new RegExp(`\nstarted: http://127.0.0.1:${port}\n$`))
  })
}

t.test('with TLS between the nodes the address of the join is https', async (t) => {
  const port = await listening(t)
  const { ended } = start(t, { hostname: 'vec-a-0', nodes: '2', port, enableTls: true })
  t.match(await ended, new RegExp(`\nstarted: https://127.0.0.1:${port}\n$`))
})

t.test('node 0 waits while no other node answers, until the record is removed', async (t) => {
  const { ended, printed, folder } = start(t, { hostname: 'vec-a-0', nodes: '2', port: SILENT })
  await printed('formed with 2 nodes: waiting for another node\n')
  rmSync(join(folder, 'formation/nodes'))
  const output = await ended
  t.match(output, /waiting for another node\nstarted: alone\n$/)
  t.equal(output.match(/started/g)?.length, 1)
})

t.test('the guard keeps the volumes of the release and adds its record', (t) => {
  const spec = clusterSpec({
    replicas: 3,
    tls: { enabled: true, secretRef: { name: 'certificate' } },
    config: { storage: { storage_path: '/data/engine' } },
  })
  const values = chartValues(cluster({ spec }), { hasCaCertificate: true })
  const guarded = withBootstrapGuard(values, cluster({ spec })) as {
    args: string[]
    additionalVolumes: unknown[]
    additionalVolumeMounts: unknown[]
  }
  t.strictSame(guarded.additionalVolumes, [
    { name: 'tls', secret: { secretName: 'certificate' } },
    { name: 'formation', configMap: { name: 'vec-a.formed', optional: true } },
  ])
  t.strictSame(guarded.additionalVolumeMounts, [
    { name: 'tls', mountPath: '/qdrant/tls', readOnly: true },
    { name: 'formation', mountPath: '/qdrant/formation', readOnly: true },
  ])
  t.match(guarded.args[0], '/data/engine/raft_state.json', 'where this engine has its state')
  const { args: _, additionalVolumes: __, additionalVolumeMounts: ___, ...others } = guarded
  const { additionalVolumes: ____, additionalVolumeMounts: _____, ...before } = values
  t.strictSame(others, before)
  t.end()
})

t.test('an engine that runs alone gets no guard', (t) => {
  const alone = cluster({
    spec: { cluster: { enabled: false, p2p: { port: 6335, enableTls: false } } },
  })
  t.strictSame(withBootstrapGuard({ replicaCount: 1 }, alone), { replicaCount: 1 })
  t.end()
})

t.test('the guard alone causes no helm run: hashes are those of releases without it', (t) => {
  // What later releases added since then changes no value of these clusters.
  const { defaultAffinity: _, ...release } = applied()
  const former = { progress: progress({ applied: release }) }
  const podDisruptionBudget = { enabled: false, maxUnavailable: 1 }
  const hashOf = (replicas: number) => {
    const parts = { cluster: cluster({ spec: { replicas, podDisruptionBudget } }), ...former }
    return desiredRun(observed(parts), settings)
  }
  t.equal(hashOf(1).hash, '6536e7e029d5')
  t.equal(hashOf(3).hash, 'bf5e5c11f40e')
  matchWhole(t, hashOf(3).values['args'], [/initialize\.sh/])
  t.end()
})
