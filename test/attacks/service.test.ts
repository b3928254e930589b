/**
 * Attacks on the hook service, as its security review made them: whatever is tried, a healthy hook is answered
 * and the process stays below the memory that its pod has.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { API_VERSION } from '../../crds/contract/names.ts'
import { cluster, resource } from '../builders.ts'
import { collectionSpec } from '../hooks/collection/stage.ts'
import { endless, memoryLimit, startGround, TOKEN } from './ground.ts'

const MIB = 1024 * 1024
const ground = await startGround(t)

async function post(path: string, body: string, token?: string): Promise<number> {
  return (await answerTo(path, body, token)).status
}

async function answerTo(path: string, body: string, token?: string) {
  const response = await fetch(ground.url + path, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
    },
    body,
  })
  return { status: response.status, text: await response.text() }
}

/** What the service has to do all the time. */
async function stillServes(t: Test): Promise<void> {
  const body = JSON.stringify({ parent: cluster() })
  t.equal(await post('/vecclusters/customize', body, TOKEN), 200, 'a healthy hook is answered')
  t.equal((await fetch(`${ground.url}/healthz`)).status, 200)
  const peak = ground.peak()
  t.comment(`peak of memory so far: ${Math.round(peak / MIB)} MiB`)
  t.ok(peak > 0 && peak < memoryLimit(), `${Math.round(peak / MIB)} MiB are below the limit`)
}

async function opened(count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let made = 0; made < count; made += 1) {
    const socket = connect(ground.port, '127.0.0.1').on('error', () => undefined)
    sockets.push(socket)
    if (made % 100 === 99) await once(socket, 'connect')
  }
  return sockets
}

async function closed(socket: Socket): Promise<void> {
  if (socket.destroyed) return
  // Not by `once`, which would fail on the error that comes first.
  await new Promise<void>((resolve) => socket.once('close', () => resolve()))
}

const ARRAYS = `[${'[],'.repeat(5_000_000)}[]]`

t.test('15 MB to a route that does not exist, with the token and without', async (t) => {
  for (const token of [undefined, 'wrong', TOKEN]) {
    const status = await post('/no-such-route', ARRAYS, token).catch(() => 'cut off')
    t.ok([401, 413, 'cut off'].includes(status), String(status))
  }
  t.ok(ground.isAlive())
  await stillServes(t)
})

t.test('3,000 connections that say nothing, or never finish what they say', async (t) => {
  const idle = await opened(1500)
  const slow = await opened(1500)
  for (const socket of slow) {
    socket.write('POST /vecclusters/sync HTTP/1.1\r\nhost: a\r\ncontent-length: 15000000\r\n\r\n[')
  }
  await stillServes(t)
  for (const socket of [...idle, ...slow]) socket.destroy()
})

t.test('bodies without end, to a hook and elsewhere', async (t) => {
  const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
  const sockets = await opened(20)
  for (const [at, socket] of sockets.entries()) {
    const path = at % 2 === 0 ? '/vecclusters/sync' : '/metrics'
    socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n`)
    endless(socket, chunk)
  }
  await stillServes(t)
  await Promise.all(sockets.map(closed))
  await stillServes(t)
})

/** A VecCollection and its cluster, as Metacontroller shows them. */
function collectionSync(name: string) {
  const owner = cluster({
    name,
    status: {
      phase: 'Running',
      conditions: [
        {
          ...{ type: 'Ready', status: 'True', reason: 'AllReplicasReady', message: '' },
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
    },
  })
  const spec = collectionSpec({ clusterRef: { name } })
  return JSON.stringify({
    parent: resource('VecCollection', spec, { name }),
    children: {},
    related: { [`VecCluster.${API_VERSION}`]: { [`ns/${name}`]: owner } },
    finalizing: false,
  })
}

const MAX_ROUNDS = 1000

/** Syncs one after the other until the engine, or the API, was asked for that. */
async function syncedUntil(name: string, isSo: () => boolean): Promise<void> {
  for (let round = 0; !isSo(); round += 1) {
    if (round > MAX_ROUNDS) throw new Error(`the engine was not asked in ${MAX_ROUNDS} rounds`)
    // Of another cluster each time: what an engine answers is shared by the collections of its cluster.
    await ground.serveEngineOf(`${name}-${round}`)
    const body = collectionSync(`${name}-${round}`)
    const { status, text } = await answerTo('/veccollections/sync', body, TOKEN)
    if (status !== 200) throw new Error(`${status} ${text}`)
  }
}

const LISTS: Record<string, string> = {
  'an endless list': '[],',
  'an endless word': 'x',
}
for (const [what, text] of Object.entries(LISTS)) {
  t.test(`engines that answer with ${what}`, async (t) => {
    ground.engine.answers(({ url = '' }, response) => {
      if (url === '/readyz') response.end('all shards are ready')
      else endless(response, Buffer.alloc(65_536, text))
    })
    const asked = () => ground.engine.paths.filter((path) => path !== '/readyz').length
    await syncedUntil(what.replaceAll(' ', '-'), () => asked() >= 10)
    await stillServes(t)
  })
}

t.test('a page of an error that is made to be slow to read', async (t) => {
  ground.engine.answers(({ url = '' }, response) => {
    if (url === '/readyz') response.end('all shards are ready')
    else response.writeHead(500).end('<'.repeat(1_500_000))
  })
  const asked = () => ground.engine.paths.filter((path) => path !== '/readyz').length
  await syncedUntil('page', () => asked() >= 10)
  await stillServes(t)
})

t.test('10,000 VecCollections', async (t) => {
  const { resources } = ground.api
  const kind = resources.kinds.of(API_VERSION, 'VecCollection')
  const annotations = { note: 'x'.repeat(2500) }
  for (let at = 0; at < 10_000; at += 1) {
    const spec = collectionSpec()
    const made = resource('VecCollection', spec, { name: `many-${at}`, annotations })
    resources.store.put(kind, made)
  }
  ground.engine.answers(({ url = '' }, response) => {
    if (url === '/readyz') response.end('all shards are ready')
    else if (url === '/') response.end(JSON.stringify({ title: 'e', version: '1.18.3' }))
    else if (url === '/aliases') response.end('{"result":{"aliases":[]},"status":"ok","time":0}')
    else response.writeHead(404).end('{"status":{"error":"Not found"},"time":0}')
  })
  const before = resources.pages.lists
  await syncedUntil('many', () => resources.pages.lists > before)
  await stillServes(t)
})

t.test('Secrets of 1 MiB that are keys of clusters', async (t) => {
  const { resources } = ground.api
  const kind = resources.kinds.of('v1', 'Secret')
  const key = Buffer.from('{a0,a1,&a '.repeat(75_000)).toString('base64')
  for (let at = 0; at < 100; at += 1) {
    const metadata = { name: `key-${at}`, namespace: 'ns' }
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: { key } }
    resources.store.put(kind, secret)
  }
  const syncs = Array.from({ length: 100 }, (_, at) => {
    const secretRef = { name: `key-${at}`, key: 'key' }
    const spec = { apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }
    const parent = cluster({ name: `c${at}`, spec })
    return JSON.stringify({ parent, children: {}, related: {}, finalizing: false })
  })
  // As many at once as Metacontroller has workers.
  for (let at = 0; at < syncs.length; at += 5) {
    const some = syncs.slice(at, at + 5)
    const calls = some.map((body) => answerTo('/vecclusters/sync', body, TOKEN))
    for (const { text } of await Promise.all(calls)) {
      t.ok(text.includes('of more than 4096 bytes'), 'read, and refused')
    }
  }
  await stillServes(t)
})

t.test('reports that are made up by a tenant', async (t) => {
  for (let at = 0; at < 200; at += 1) {
    const uid = 'uid-made-up'
    const report = {
      ...{
        uid,
        verb: `v${at}-${'x'.repeat(200_000)}`,
        run: 1,
        job: `j${at}`,
        runner: 'p',
        plan: 'h',
      },
      ...{ state: 'Done', at: new Date().toISOString(), startedAt: new Date().toISOString() },
    }
    const annotations = { 'vec-operator.dev/progress': JSON.stringify(report) }
    const parent = cluster({ name: 'made-up', annotations })
    const body = JSON.stringify({ parent, children: {}, related: {}, finalizing: false })
    await post('/vecclusters/sync', body, TOKEN)
  }
  const metrics = await (await fetch(`${ground.url}/metrics`)).text()
  t.ok(metrics.length < MIB, `${metrics.length} bytes of metrics`)
  await stillServes(t)
})
