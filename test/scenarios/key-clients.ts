/** Clients that call every node all the time while the API key of their cluster is rotated. */
import { setTimeout } from 'node:timers/promises'
import type { World } from '../world/world.ts'
import { NODES } from './formation.ts'

/** By the world's clock, which does not advance while there are calls. */
const PAUSE_MS = 1_000
const POLL_MS = 2
export const REFUSED = /^(401|403)|Unauthorized|Forbidden|Invalid API key|InvalidSignature/

interface ClientCall {
  method: string
  path: string
  body?: () => object
}

const READ: ClientCall = { method: 'GET', path: '/collections/books' }

/** Reads its keys again before each call, as a client that follows its Secret. The next one counts if one is refused. */
type Keys = () => Promise<(string | undefined)[]>

interface Client {
  keys: Keys
  call: ClientCall
  isActive: boolean
  calls: number
}

/** Clients that call every node all the time; what was refused is recorded. */
export function clientsOf(world: World, namespace: string, nodes = NODES) {
  const clients = new Map<string, Client>()
  const refused: string[] = []
  const uids = new Map<string, Set<string>>()
  const closing = new AbortController()
  const { signal } = closing
  /** Why a node refused every key; undefined if it accepted one, or did not answer. */
  const refusedBy = async (client: Client, node: number, keys: string[]) => {
    const pod = { namespace, name: `vec-a-${node}` }
    const { method, path, body } = client.call
    let last: string | undefined
    for (const key of keys) {
      try {
        await world.engine(pod, method, path, body?.(), key)
        client.calls += 1
        return undefined
      } catch (error) {
        last = `${(error as { status?: number }).status ?? ''} ${String(error)}`
        // A node that restarts does not answer, and that is not what this is about.
        if (!REFUSED.test(last)) return undefined
      }
    }
    return last
  }
  const callAs = async (name: string, client: Client) => {
    const keys = (await client.keys()).filter((key) => key !== undefined)
    for (const node of nodes) {
      const text = await refusedBy(client, node, keys)
      if (client.isActive && text !== undefined) refused.push(`${name} on node ${node}: ${text}`)
    }
  }
  const recordPods = async () => {
    for (const { metadata } of await world.list('v1', 'Pod', namespace)) {
      if (!/^vec-a-\d$/.test(metadata.name)) continue
      const seen = uids.get(metadata.name) ?? new Set()
      uids.set(metadata.name, seen.add(metadata.uid ?? ''))
    }
  }
  const loop = (async () => {
    let calledAt = 0
    while (!signal.aborted) {
      if (world.now().getTime() - calledAt < PAUSE_MS) {
        await setTimeout(POLL_MS)
        continue
      }
      calledAt = world.now().getTime()
      await recordPods()
      const active = [...clients].filter(([, { isActive }]) => isActive)
      await Promise.all(active.map(([name, client]) => callAs(name, client)))
    }
  })()
  return {
    refused,
    /** How many pods each node has had. */
    pods: () => [...uids.values()].map((seen) => seen.size),
    start(name: string, credential: () => Promise<string | undefined>) {
      clients.set(name, {
        keys: async () => [await credential()],
        ...{ call: READ, isActive: true, calls: 0 },
      })
    },
    /** A client with several keys, or with another call than reading. */
    startWith(name: string, keys: Keys, call = READ) {
      clients.set(name, { keys, call, isActive: true, calls: 0 })
    },
    /** Calls of a client, which makes no others. */
    stop(name: string): number {
      const client = clients.get(name)
      if (client === undefined) throw new Error(`there is no client ${name}`)
      client.isActive = false
      return client.calls
    },
    async close() {
      closing.abort()
      await loop
      // The last pod may have come after the last calls.
      await recordPods()
    },
  }
}
