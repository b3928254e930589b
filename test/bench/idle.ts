/** An hour of the embedded world's clock with a Running cluster in which nothing happens: who writes anything? */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { API_VERSION } from '../../crds/contract/names.ts'
import { phaseOf } from '../scenarios/scenario.ts'
import { startEmbeddedWorld, type EmbeddedWorld } from '../world/embedded.ts'
import type { Part } from './part.ts'
import type { Figure } from './table.ts'

const HOUR = 3600
/** The last report and its status are shown by then. */
const SETTLED_SECONDS = 120

export const idle: Part = {
  name: 'idle',
  title: 'an hour in which nothing happens',
  columns: ['all', ''],
  measure: measureIdleHour,
}

async function measureIdleHour(): Promise<Figure[]> {
  const world = await startEmbeddedWorld()
  try {
    await makeCluster(world)
    const { writes, reads, hooks } = await callsOf(world, () => world.advance(HOUR))
    return [
      {
        ...{ what: 'API writes by all, idle hour', unit: '', value: writes.length },
        ...{ target: 0, met: writes.length === 0 },
      },
      { what: 'API reads by all, idle hour', unit: '', value: reads.length },
      { what: 'hook calls, idle hour', unit: '', value: hooks.length },
    ]
  } finally {
    await world.close()
  }
}

async function makeCluster(world: EmbeddedWorld): Promise<void> {
  const namespace = await world.namespace('idle')
  const identity = { apiVersion: API_VERSION, kind: 'VecCluster' }
  const metadata = { namespace, name: 'a' }
  await world.apply({ ...identity, metadata, spec: { version: world.versions.newer, replicas: 3 } })
  const reference = { ...identity, ...metadata }
  await world.waitFor(reference, 'Running', (object) => phaseOf(object) === 'Running', 600)
  await world.advance(SETTLED_SECONDS)
}

interface Calls {
  writes: string[]
  reads: string[]
  hooks: string[]
}

/** Every request that a server of this process, the API or the hook service, gets meanwhile. */
async function callsOf(world: EmbeddedWorld, during: () => Promise<void>): Promise<Calls> {
  const calls: Calls = { writes: [], reads: [], hooks: [] }
  const api = new URL(world.api.url).host
  const listener = (message: unknown) => {
    const { request } = message as {
      request: { method: string; url: string; headers: { host?: string } }
    }
    const call = `${request.method} ${request.url}`
    if (request.headers.host === api) {
      // A call of an engine through the pod proxy writes nothing, whatever its method.
      const isRead = request.method === 'GET' || request.url.includes('/proxy/')
      calls[isRead ? 'reads' : 'writes'].push(call)
    } else if (request.url.startsWith('/vec')) calls.hooks.push(call)
  }
  subscribe('http.server.request.start', listener)
  try {
    await during()
  } finally {
    unsubscribe('http.server.request.start', listener)
  }
  return calls
}
