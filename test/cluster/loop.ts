/**
 * Our own loop as a program, where no real Metacontroller is given: `node loop.ts <kubeconfig>` runs
 * every CompositeController that is there when it starts, until it is told to end.
 */
import { readFileSync } from 'node:fs'

import { ApiClient } from '../world/client.ts'
import { systemClock } from '../world/clock.ts'
import { startLoop } from '../world/loop/index.ts'

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
const controllers = await api.list('metacontroller.k8s.io/v1alpha1', 'CompositeController')
const loop = startLoop({
  api,
  controllers: controllers.items,
  clock: systemClock,
  log: console.log,
})
process.once('SIGTERM', () => {
  loop.stop().finally(() => process.exit(0))
})
