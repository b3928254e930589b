/**
 * Attacks on the hook service, as its security review made them. The tests look at what they achieve, and the
 * bench at how long healthy requests take meanwhile.
 */
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { API_VERSION, LABELS, MANAGED_BY } from '../../crds/contract/names.ts'
import { cluster, resource } from '../builders.ts'
import { backup, schedule } from '../hooks/backup-schedule/stage.ts'
import { collectionSpec } from '../hooks/collection/stage.ts'
import type { Attack } from './attack.ts'
import { callHook, post } from './calls.ts'
import { endless, MIB, type Ground } from './ground.ts'
import { TOKEN } from './healthy.ts'
import { REQUEST_ATTACKS } from './request-attacks.ts'

const ARRAYS = `[${'[],'.repeat(5_000_000)}[]]`
const MAX_ROUNDS = 1000

const unknownRoutes: Attack = {
  title: '15 MB to a route that does not exist, with the token and without',
  async begin(ground) {
    const problems: string[] = []
    for (const token of [undefined, 'wrong', TOKEN]) {
      const call = post(`${ground.url}/no-such-route`, ARRAYS, token)
      const status = await call.then(
        (answer) => answer.status,
        () => 'cut off',
      )
      if (![401, 413, 'cut off'].includes(status)) problems.push(`answered with ${status}`)
    }
    return { problems }
  },
}

const silent: Attack = {
  title: '3,000 connections that say nothing, or never finish what they say',
  lasts: true,
  async begin(ground) {
    const idle = await opened(ground, 1500)
    const slow = await opened(ground, 1500)
    for (const socket of slow) {
      socket.write(
        'POST /vecclusters/sync HTTP/1.1\r\nhost: a\r\ncontent-length: 15000000\r\n\r\n[',
      )
    }
    const end = async () => [...idle, ...slow].forEach((socket) => socket.destroy())
    return { problems: [], end }
  },
}

const endlessBodies: Attack = {
  title: 'bodies without end, to a hook and elsewhere',
  lasts: true,
  async begin(ground) {
    const chunk = `10000\r\n${' '.repeat(65_536)}\r\n`
    const sockets = await opened(ground, 20)
    for (const [at, socket] of sockets.entries()) {
      const path = at % 2 === 0 ? '/vecclusters/sync' : '/metrics'
      socket.write(`POST ${path} HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n`)
      endless(socket, chunk)
    }
    // It is the service that closes them.
    const end = async () => void (await Promise.all(sockets.map(closed)))
    return { problems: [], end }
  },
}

function endlessAnswer(what: string, text: string): Attack {
  return {
    title: `engines that answer with ${what}`,
    async begin(ground) {
      ground.engine.answers(({ url = '' }, response) => {
        if (url === '/readyz') response.end('all shards are ready')
        else endless(response, Buffer.alloc(65_536, text))
      })
      await syncedUntil(ground, what.replaceAll(' ', '-'), () => askedOf(ground) >= 10)
      return { problems: [] }
    },
  }
}

const slowPage: Attack = {
  title: 'a page of an error that is made to be slow to read',
  async begin(ground) {
    ground.engine.answers(({ url = '' }, response) => {
      if (url === '/readyz') response.end('all shards are ready')
      else response.writeHead(500).end('<'.repeat(1_500_000))
    })
    await syncedUntil(ground, 'page', () => askedOf(ground) >= 10)
    return { problems: [] }
  },
}

const manyCollections: Attack = {
  title: '10,000 VecCollections',
  async begin(ground) {
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
    await syncedUntil(ground, 'many', () => resources.pages.lists > before)
    return { problems: [] }
  },
}

/** What the service holds for each of them is part of its memory during the attacks that follow. */
const manyClusters: Attack = {
  title: 'VecCollections of 3,000 clusters',
  async begin(ground) {
    const problems: string[] = []
    for (let at = 0; at < 3000; at += 10) {
      const calls = Array.from({ length: 10 }, () => {
        const body = collectionSync(`one-of-many-${ground.number()}`)
        return callHook(`${ground.url}/veccollections/sync`, body, TOKEN)
      })
      for (const { status, text } of await Promise.all(calls))
        if (status !== 200) problems.push(`answered with ${status}: ${text}`)
    }
    return { problems }
  },
}

const largeSecrets: Attack = {
  title: 'Secrets of 1 MiB that are keys of clusters',
  async begin(ground) {
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
    const problems: string[] = []
    for (let at = 0; at < syncs.length; at += 5) {
      const some = syncs.slice(at, at + 5)
      const calls = some.map((body) => callHook(`${ground.url}/vecclusters/sync`, body, TOKEN))
      for (const { text } of await Promise.all(calls)) {
        if (!text.includes('of more than 4096 bytes'))
          problems.push(`not read and refused: ${text}`)
      }
    }
    return { problems }
  },
}

/** Each list has more than the heap of the service. */
const largeObjects: Attack = {
  title: 'Jobs and VecBackups of up to 1 MiB with the labels of those of the operator',
  async begin(ground) {
    const { resources } = ground.api
    const note = 'x'.repeat(MIB)
    const managed = { [LABELS.managedBy]: MANAGED_BY, [LABELS.component]: 'helm' }
    const spec = { template: { spec: { containers: [{ name: 'a', image: 'a' }] } } }
    const jobs = resources.kinds.of('batch/v1', 'Job')
    for (let at = 0; at < 200; at += 1) {
      const metadata = { name: `large-${at}`, namespace: 'ns', labels: managed }
      const job = { apiVersion: 'batch/v1', kind: 'Job', spec }
      resources.store.put(jobs, { ...job, metadata: { ...metadata, annotations: { note } } })
    }
    const parent = schedule({ createdAt: '2026-01-01T00:00:00Z' })
    const { uid, name } = parent.metadata
    const owner = { apiVersion: API_VERSION, kind: 'VecBackupSchedule', name, uid }
    const backups = resources.kinds.of(API_VERSION, 'VecBackup')
    for (let at = 0; at < 600; at += 1) {
      const made = backup('2026-01-01T03:00:00Z')
      const metadata = {
        ...{ ...made.metadata, name: `${name}-large-${at}` },
        ...{ annotations: { note: note.slice(0, MIB / 4) } },
        ownerReferences: [{ ...owner, controller: true }],
      }
      resources.store.put(backups, { ...made, metadata })
    }
    const problems: string[] = []
    const sync = async (path: string, body: object) => {
      const before = resources.pages.lists
      const request = JSON.stringify({ ...body, children: {}, related: {}, finalizing: false })
      const { status, text } = await callHook(`${ground.url}/${path}/sync`, request, TOKEN)
      // Only what reads these objects may take too long.
      if (status !== 200 && status !== 503) problems.push(`answered with ${status}: ${text}`)
      if (resources.pages.lists === before) problems.push(`${path}: nothing was listed`)
    }
    await sync('vecclusters', { parent: cluster({ name: 'among-large' }) })
    await sync('vecbackupschedules', { parent })
    // Other attacks need as much memory as there is.
    for (const kind of [jobs, backups]) resources.store.empty(kind)
    return { problems }
  },
}

const madeUpReports: Attack = {
  title: 'reports that are made up by a tenant',
  async begin(ground) {
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
      await callHook(`${ground.url}/vecclusters/sync`, body, TOKEN)
    }
    const metrics = await (await fetch(`${ground.url}/metrics`)).text()
    return { problems: metrics.length < MIB ? [] : [`${metrics.length} bytes of metrics`] }
  },
}

export const SERVICE_ATTACKS: Attack[] = [
  unknownRoutes,
  silent,
  endlessBodies,
  endlessAnswer('an endless list', '[],'),
  endlessAnswer('an endless word', 'x'),
  slowPage,
  manyCollections,
  manyClusters,
  largeSecrets,
  madeUpReports,
  largeObjects,
  ...REQUEST_ATTACKS,
]

async function opened({ connect }: Ground, count: number): Promise<Socket[]> {
  const sockets: Socket[] = []
  for (let made = 0; made < count; made += 1) {
    const socket = connect()
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

/** Syncs one after the other until the engine, or the API, was asked for that. */
async function syncedUntil(ground: Ground, name: string, isSo: () => boolean): Promise<void> {
  for (let round = 0; !isSo(); round += 1) {
    if (round > MAX_ROUNDS) throw new Error(`the engine was not asked in ${MAX_ROUNDS} rounds`)
    // Of another cluster each time: what an engine answers is shared by the collections of its cluster.
    const cluster = `${name}-${ground.number()}`
    await ground.serveEngineOf(cluster)
    const body = collectionSync(cluster)
    const { status, text } = await callHook(`${ground.url}/veccollections/sync`, body, TOKEN)
    if (status !== 200) throw new Error(`${status} ${text}`)
  }
}

function askedOf({ engine }: Ground): number {
  return engine.paths.filter((path) => path !== '/readyz').length
}
