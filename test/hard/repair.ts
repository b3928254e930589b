/**
 * What an administrator does for a node whose volume is lost: its replicas are dropped where others
 * are Active, the node joins as a new peer, and the replicas are recreated. A node whose consensus has
 * stopped is restarted.
 */
import { readFileSync } from 'node:fs'
import { ask, pathOf } from './ask.ts'
import type { RealNode } from './engines.ts'
import { settle, viewOf } from './replicas.ts'
import type { HardWorld } from './world.ts'

const WAIT_MS = 240_000
const SETTLE_MS = 10_000
/** A start on an empty volume, from the moment the process is killed, on a busy machine. */
const JOIN_MS = 30_000
/** A running thread sets its time several times a second. */
const SILENT_MS = 60_000
/** The end of the process that ran on the lost volume. */
const EXPECTED_RESTARTS = 1
const POLL_MS = 250
/** What the engine answers when the copy to be dropped is the last one that is Active. */
const LAST_COPY = /must have at least one active replica/

interface Peers {
  peer_id: number
  peers: Record<string, { uri: string }>
}

export async function repair(world: HardWorld, cluster: string, lost: number): Promise<void> {
  const { engines } = world
  if (engines === undefined) return
  const set = `vec-${cluster}`
  const node = engines.node(set, lost)
  const survivor = engines.nodes(set).find(({ ordinal }) => ordinal !== lost)
  if (survivor === undefined) throw new Error(`${set} has no other node`)
  const peer = await peerAt(survivor.url, node.uri)
  // Node 0 would found a cluster of its own.
  node.bootstrap = survivor.uri
  const hasJoined = async () => {
    const present = await peersAt(survivor.url, node.uri)
    return present.length > 0 && !present.includes(peer) && (await isReady(node.url))
  }
  await until(`${set}-${lost} joins`, async () => {
    if (await hasJoined()) return true
    // The engine refuses a peer at this address while the former one has shards; collections that the load
    // has made meanwhile have some there too.
    for (const collection of await collectionsOf(survivor.url)) {
      await unlessGone(dropCopies(survivor.url, collection, peer)).catch(async (error: unknown) => {
        if (!LAST_COPY.test(String(error))) throw error
        // A restore that was filling it has not made the second copy yet. The shard is lost: an administrator
        // deletes the collection, and the next attempt of the restore creates it again. On a source, the
        // comparison finds the points missing.
        await unlessGone(ask(survivor.url, 'DELETE', `${pathOf(collection)}?timeout=20`))
      })
    }
    node.loseVolume()
    // What a start that was refused has stored is in the way of the next one.
    const end = Date.now() + JOIN_MS
    const mayJoin = () => Date.now() < end && node.restarts <= EXPECTED_RESTARTS
    while (mayJoin() && !(await hasJoined())) await pause(POLL_MS)
    return false
  })
  for (const collection of await collectionsOf(survivor.url)) {
    await makeCopies(world, cluster, collection)
  }
}

/**
 * Restarts the nodes of a cluster that apply no change of metadata any more, as the condition of the operator
 * advises, and returns why each had stopped, from the log of its engine.
 */
export async function restartStopped({ engines }: HardWorld, cluster: string): Promise<string[]> {
  const set = `vec-${cluster}`
  const stopped: string[] = []
  for (const node of engines?.nodes(set) ?? []) {
    if (!(await hasStopped(node.url))) continue
    stopped.push(`${set}-${node.ordinal}: ${lastError(node)}`)
    node.signal('SIGKILL')
    await until(`${set}-${node.ordinal} applies changes again`, async () => {
      return (await isReady(node.url)) && !(await hasStopped(node.url))
    })
  }
  return stopped
}

async function hasStopped(url: string): Promise<boolean> {
  const text = await textOf(url, '/cluster').catch(() => '')
  const lastUpdate = /"last_update":"([^"]+)"/.exec(text)?.[1]
  // A thread that has panicked, or waits for a lock, is reported as working.
  const isSilent = lastUpdate !== undefined && Date.now() - Date.parse(lastUpdate) > SILENT_MS
  return isSilent || text.includes('"stopped_with_err"')
}

function lastError({ log }: RealNode): string {
  const errors = readFileSync(log, 'utf8').match(/^.*\bERROR\b.*(?:consensus|Panic).*$/gim) ?? []
  return errors.at(-1)?.trim() ?? 'no error in its log'
}

/** The load deletes a collection or a shard key now and then. */
async function unlessGone<Result>(work: Promise<Result>): Promise<Result | undefined> {
  return work.catch((error: unknown) => {
    if (/doesn't exist|does not exist/.test(String(error))) return undefined
    throw error
  })
}

async function collectionsOf(url: string): Promise<string[]> {
  const { collections } = (await ask(url, 'GET', '/collections')) as {
    collections: { name: string }[]
  }
  return collections.map(({ name }) => name)
}

async function peerAt(url: string, uri: string): Promise<string> {
  const [found] = await peersAt(url, uri)
  if (found === undefined) throw new Error(`no peer at ${uri}`)
  return found
}

/** The peers that have this address, as text: ids do not fit a number. */
async function peersAt(url: string, uri: string): Promise<string[]> {
  const response = await fetch(`${url}/cluster`)
  const { peers } = ((await response.json()) as { result: Peers }).result
  const found = Object.entries(peers).filter(([, peer]) => peer.uri.replace(/\/$/, '') === uri)
  return found.map(([id]) => id)
}

async function dropCopies(url: string, collection: string, peer: string): Promise<void> {
  const text = await textOf(url, `${pathOf(collection)}/cluster`)
  for (const { shard, of } of remotesIn(text)) {
    if (of !== peer) continue
    const body = `{"drop_replica":{"shard_id":${shard},"peer_id":${peer}}}`
    await unlessGone(post(url, `${pathOf(collection)}/cluster?timeout=20`, body))
  }
}

/** As many copies as the collection is to have, each made from one that is Active. */
async function makeCopies(world: HardWorld, cluster: string, collection: string): Promise<void> {
  await until(`${collection} of ${cluster} has all its copies`, async () => {
    const urls = world.urls(cluster)
    // The load creates and deletes shards meanwhile, so each replica is decided on separately.
    if ((await settle(() => urls, collection, SETTLE_MS)) !== undefined) return false
    const move = await unlessGone(nextCopy(urls, collection))
    if (move === undefined) return true
    const path = `${pathOf(collection)}/cluster?timeout=20`
    await unlessGone(post(urls[0] ?? '', path, `{"replicate_shard":${move}}`))
    return false
  })
}

/** A copy that is missing, as the engine takes it; undefined when there is none. */
async function nextCopy(urls: readonly string[], collection: string): Promise<string | undefined> {
  const [url = ''] = urls
  const { config } = (await ask(url, 'GET', pathOf(collection))) as {
    config: { params: { replication_factor: number } }
  }
  const holders = new Map<number, string[]>()
  const all: string[] = []
  for (const one of urls) {
    const text = await textOf(one, `${pathOf(collection)}/cluster`)
    const own = /"peer_id":(\d+)/.exec(text)?.[1] ?? ''
    all.push(own)
    const view = await viewOf(one, collection)
    for (const { shard_id: shard } of view?.local_shards ?? []) {
      holders.set(shard, [...(holders.get(shard) ?? []), own])
    }
  }
  for (const [shard, peers] of holders) {
    const to = all.find((peer) => !peers.includes(peer))
    if (to === undefined || peers.length >= config.params.replication_factor) continue
    return `{"shard_id":${shard},"from_peer_id":${peers[0]},"to_peer_id":${to}}`
  }
  return undefined
}

/** Peer ids are larger than a number holds, so they are cut out of the text. */
function remotesIn(text: string): { shard: number; of: string }[] {
  const remotes = /"remote_shards":\[(.*?)\]/s.exec(text)?.[1] ?? ''
  return [...remotes.matchAll(/\{[^}]*\}/g)].map(([one]) => ({
    shard: Number(/"shard_id":(\d+)/.exec(one)?.[1]),
    of: /"peer_id":(\d+)/.exec(one)?.[1] ?? '',
  }))
}

async function textOf(url: string, path: string): Promise<string> {
  return (await fetch(url + path)).text()
}

async function post(url: string, path: string, body: string): Promise<void> {
  const headers = { 'content-type': 'application/json' }
  const response = await fetch(url + path, { method: 'POST', headers, body })
  if (!response.ok) throw new Error(`POST ${path} answered ${await response.text()}`)
}

async function isReady(url: string): Promise<boolean> {
  return fetch(`${url}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )
}

async function until(what: string, met: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + WAIT_MS
  let last = 'none'
  const attempt = () =>
    met().catch((error: unknown) => {
      last = String(error)
      return false
    })
  while (!(await attempt())) {
    if (Date.now() > end) throw new Error(`not within ${WAIT_MS} ms: ${what}; last error: ${last}`)
    await pause(POLL_MS)
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
