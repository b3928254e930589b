/**
 * Our own loop as a program, where no real Metacontroller is given: `node loop.ts <kubeconfig>` runs
 * every CompositeController until a signal ends it. Like Metacontroller it follows their specs: the service
 * writes certificate and token into them after they were created.
 */
import { readFileSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'

import { ApiClient, type ApiObject } from '../world/client.ts'
import { systemClock } from '../world/clock.ts'
import { startLoop, type Loop } from '../world/loop/index.ts'

interface Kubeconfig {
  clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }]
  users: [{ user: { token: string } }]
}

const [file = ''] = process.argv.slice(2)
const { clusters, users } = JSON.parse(readFileSync(file, 'utf8')) as Kubeconfig
const { server, 'certificate-authority-data': ca } = clusters[0].cluster
const api = new ApiClient({
  server,
  token: users[0].user.token,
  ca: Buffer.from(ca, 'base64').toString(),
})
const FOLLOW_MS = 1000
const stopped = new AbortController()
process.once('SIGTERM', () => stopped.abort())

let specs = ''
let loop: Loop | undefined
while (!stopped.signal.aborted) {
  const controllers = await listed().catch(() => undefined)
  // An API server that does not answer now is asked again.
  if (controllers === undefined) {
    await setTimeout(FOLLOW_MS)
    continue
  }
  const found = JSON.stringify(controllers.map(({ metadata, spec }) => [metadata.name, spec]))
  if (found !== specs) {
    specs = found
    await loop?.stop()
    loop = startLoop({ api, controllers, clock: systemClock, log: console.log })
  }
  await setTimeout(FOLLOW_MS, undefined, { signal: stopped.signal }).catch(() => undefined)
}
await loop?.stop()
process.exit(0)

/** Sorted: the order of a list is not the order of the one before. */
async function listed(): Promise<ApiObject[]> {
  const { items } = await api.list('metacontroller.k8s.io/v1alpha1', 'CompositeController')
  return items.toSorted((a, b) => a.metadata.name.localeCompare(b.metadata.name))
}
