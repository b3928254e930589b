/**
 * The service out of the cluster, started as docs/operations.md says it: a process of npm, a kubeconfig,
 * one namespace; its Jobs have the rights of Jobs. Metacontroller, here our loop, calls it where it listens; all runs by the real clock.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { controllers, PLURALS } from '../../metacontroller/controllers.ts'
import { clusterManifest, clusterReference, phaseOf, SMALL } from '../scenarios/scenario.ts'
import { startApi } from '../world/api/server.ts'
import { ApiClient, type ApiObject } from '../world/client.ts'
import { systemClock } from '../world/clock.ts'
import { startControllers } from '../world/controllers/index.ts'
import { startLoop } from '../world/loop/index.ts'
import { kubeconfigFile, VERSION } from './embedded.ts'

const ROOT = join(import.meta.dirname, '../..')
const HELM = join(ROOT, 'test/doubles/helm')
const TOKEN = 'a-token-of-the-hooks'
const RUNNING_SECONDS = 120

/** A cluster without the operator, with the two namespaces of the test. */
async function cluster(t: Test) {
  const server = await startApi(systemClock)
  const api = new ApiClient({ server: server.url, token: server.token })
  const parts = startControllers({ api: server, clock: systemClock, helm: HELM })
  t.teardown(async () => {
    await parts.close()
    await api.close()
    await server.close()
  })
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, VERSION))
  for (const name of ['served', 'elsewhere', 'vec-system']) {
    await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
  }
  const metadata = { name: 'hook-token', namespace: 'vec-system' }
  await api.create({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { token: TOKEN } })
  return { server, api }
}

/** `npm start` in a separate terminal, until it says where it listens. */
async function npmStart(t: Test, args: string[], env: Record<string, string>) {
  const child = spawn('npm', ['start', '--silent', '--', ...args], {
    cwd: ROOT,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
    detached: true,
  })
  // npm, its shell and the service: a terminal interrupts all of them.
  const interrupt = () => process.kill(-(child.pid ?? 0), 'SIGINT')
  t.teardown(() => child.exitCode ?? child.signalCode ?? interrupt())
  let text = ''
  // Once none of them holds it open any more.
  const ended = new Promise<string>((resolve) => child.once('close', () => resolve(text)))
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      const [, found] = /INFO serving url=(\S+)/.exec(text) ?? []
      if (found !== undefined) resolve(found)
    })
    child.once('close', () => reject(new Error(`ended: ${text}`)))
  })
  return { interrupt, ended, url }
}

/** Metacontroller, with what the chart renders for a service at this address. */
function metacontroller({ url: server, loopToken }: Server, url: string) {
  const api = new ApiClient({ server, token: loopToken })
  const authorization = { name: 'hook-token', namespace: 'vec-system', key: 'token' }
  const fingerprints = { tokenFingerprint: 't', namespacesHash: 'n' }
  const loop = startLoop({
    api,
    clock: systemClock,
    controllers: controllers({
      ...{ url, version: VERSION, kinds: PLURALS, token: authorization, ...fingerprints },
    }),
  })
  return async () => {
    await loop.stop()
    await api.close()
  }
}
type Server = Awaited<ReturnType<typeof startApi>>

t.test('outside the cluster the service serves the given namespace', async (t) => {
  const { server, api } = await cluster(t)
  const tokenFile = join(t.testdir({}), 'hook-token')
  writeFileSync(tokenFile, TOKEN)
  const args = ['--namespace', 'served']
  const where = ['--port', '0', '--host', '127.0.0.1', '--log-format', 'text']
  // A list as in a user's KUBECONFIG: not every file needs to exist.
  const KUBECONFIG = [join(t.testdirName, 'missing'), kubeconfigFile(t, server)].join(delimiter)
  const env = { HOOK_TOKEN_FILE: tokenFile, IMAGE: 'vec-operator:dev', KUBECONFIG }
  const { interrupt, ended, url } = await npmStart(t, [...args, ...where], env)
  const stop = metacontroller(server, url)
  t.teardown(stop)

  for (const namespace of ['elsewhere', 'served']) {
    await api.create(clusterManifest(namespace, 'a', { version: '1.18.3', ...SMALL }))
  }
  const served = clusterReference('served', 'a')
  t.equal(phaseOf(await until(api, served, (object) => phaseOf(object) === 'Running')), 'Running')
  t.equal(phaseOf(await api.get(clusterReference('elsewhere', 'a'))), undefined)
  const { items } = await api.list('batch/v1', 'Job', { namespace: 'elsewhere' })
  t.strictSame(items, [], 'objects in other namespaces are not owned')

  await stop()
  interrupt()
  t.match(await ended, /INFO stopping signal=SIGINT/)
})

/** Follows the object by a watch: time is the machine's. */
async function until(
  api: ApiClient,
  { apiVersion, kind, namespace, name }: ReturnType<typeof clusterReference>,
  predicate: (object: ApiObject) => boolean,
): Promise<ApiObject> {
  const { items, resourceVersion } = await api.list(apiVersion, kind, { namespace })
  const there = items.find((object) => object.metadata.name === name)
  if (there !== undefined && predicate(there)) return there
  const signal = AbortSignal.timeout(RUNNING_SECONDS * 1000)
  for await (const { object } of api.watch(apiVersion, kind, {
    namespace,
    resourceVersion,
    signal,
  })) {
    if (object.metadata.name === name && predicate(object)) return object
  }
  throw new Error(`${kind} ${namespace}/${name} did not get there in ${RUNNING_SECONDS} s`)
}
