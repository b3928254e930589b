/** The resource with which the check of an installation shows that Metacontroller calls the hooks. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout } from 'node:timers/promises'
import t from 'tap'
import { pino } from 'pino'
import { MAX_CLUSTER_NAME } from '../../crds/contract/limits.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { finalizerName, PLURALS } from '../../metacontroller/controllers.ts'
import { IMPOSSIBLE_CLUSTER, reconcileErrors } from '../../metacontroller/install-check.ts'
import { recordedInstallCheck } from '../chart/golden.ts'
import { matchWhole } from '../match-whole.ts'
import type { ApiObject } from '../world/client.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { installation, type Installation } from './installation.ts'

const PROGRAM = join(import.meta.dirname, '../../metacontroller/install-check.ts')
const NAMED = 'VecCollection shop/helm-test-[0-9a-f]{12}'

/** The operator sees the resource, as far as its status says. */
async function writeStatus({ api, collections }: Installation, status: object) {
  for (const object of await collections()) {
    if (object.metadata.deletionTimestamp !== undefined) continue
    await api.replaceStatus({ ...object, status })
  }
}

t.test('the resource gets its status, and is gone when the check ends', async (t) => {
  const one = await installation(t)
  const found: ApiObject[] = []
  one.pauses.act = async () => {
    found.push(...(await one.collections()))
    await writeStatus(one, { phase: 'Pending', observedGeneration: 1 })
  }
  t.strictSame(await one.run('shop'), {
    passed: true,
    report: [
      `7 CompositeControllers call the hooks at ${one.hooks.url}, which reject a wrong token`,
      'Metacontroller reconciled and deleted a VecCollection in the namespace shop',
      '',
    ].join('\n'),
  })
  matchWhole(t, found, [
    {
      metadata: { name: /^helm-test-[0-9a-f]{12}$/, namespace: 'shop' },
      spec: { clusterRef: { name: IMPOSSIBLE_CLUSTER }, deletionPolicy: 'Retain' },
    },
  ])
  t.ok(IMPOSSIBLE_CLUSTER.length > MAX_CLUSTER_NAME, 'no VecCluster can have that name')
  t.strictSame(await one.collections(), [])
})

const UNFINISHED: Record<string, [status: object, missing: string]> = {
  'writes no status': [{}, 'status.phase'],
  'writes the status of another generation': [
    { phase: 'Pending', observedGeneration: 0 },
    'status.observedGeneration',
  ],
}

for (const [title, [status, missing]] of Object.entries(UNFINISHED)) {
  t.test(`it fails and says so if Metacontroller ${title}`, async (t) => {
    const one = await installation(t)
    one.pauses.act = () => writeStatus(one, status)
    const { passed, report } = await one.run('shop')
    t.notOk(passed)
    t.match(
      report,
      new RegExp(
        `^${NAMED}: no ${missing} of its generation after 90 s: Metacontroller does not run, does not call the hooks, or rejects their answers; see its log\\n$`,
      ),
    )
    t.strictSame(await one.collections(), [], 'it is deleted all the same')
  })
}

t.test('it fails and names the finalizers if the resource is not deleted', async (t) => {
  const one = await installation(t)
  const finalizer = finalizerName('veccollections')
  one.pauses.act = async () => {
    for (const object of await one.collections()) {
      if (object.metadata.deletionTimestamp !== undefined) continue
      const metadata = { ...object.metadata, finalizers: [finalizer] }
      await one.api.replace({ ...object, metadata })
    }
    await writeStatus(one, { phase: 'Pending', observedGeneration: 1 })
  }
  const { passed, report } = await one.run('shop')
  t.notOk(passed)
  t.match(
    report,
    new RegExp(
      `^${NAMED}: it still exists 60 s after its deletion, with the finalizers \\[${finalizer}\\], which only the running operator removes\\n$`,
    ),
  )
})

t.test('it fails and says why if the resource cannot be created or is deleted', async (t) => {
  const one = await installation(t)
  const missing = await one.run('missing')
  t.notOk(missing.passed)
  t.match(
    missing.report,
    /^VecCollection missing\/helm-test-[0-9a-f]{12}: POST .* answered 403: .* cannot create resource "veccollections"/,
  )
  one.pauses.act = async () => {
    for (const { metadata, ...type } of await one.collections())
      await one.api.delete({ ...type, namespace: 'shop', name: metadata.name })
  }
  const deleted = await one.run('shop')
  t.notOk(deleted.passed)
  t.match(deleted.report, new RegExp(`^${NAMED}: it was deleted by another client`))
})

t.test('a check that is stopped deletes the resource before it ends', async (t) => {
  const one = await installation(t)
  one.pauses.act = async () => {
    one.stop.abort(new Error('stopped by SIGTERM'))
  }
  const { passed, report } = await one.run('shop')
  t.notOk(passed)
  t.match(report, new RegExp(`^${NAMED}: stopped by SIGTERM\\n$`))
  t.strictSame(await one.collections(), [])
})

t.test('a process that gets SIGTERM deletes the resource and ends with 1', async (t) => {
  const { server, hooks, collections } = await installation(t)
  const folder = t.testdir({ token: server.serviceToken })
  const args = [PROGRAM, `--url=${hooks.url}`, '--namespace=shop', ...PLURALS]
  const env = { VEC_API_SERVER: server.url, VEC_API_TOKEN_FILE: join(folder, 'token') }
  const check = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'inherit'] })
  const report = text(check.stdout)
  const ended = once(check, 'exit')
  while ((await collections()).length === 0 && check.exitCode === null) await setTimeout(50)
  check.kill('SIGTERM')
  t.strictSame(await ended, [1, null])
  t.match(await report, new RegExp(`^${NAMED}: stopped by SIGTERM\\n$`))
  t.strictSame(await collections(), [])
})

t.test('each permission that the chart gives the check is needed', async (t) => {
  const permissions = recordedInstallCheck().flatMap(({ kind, metadata, ...role }) =>
    ((role['rules'] ?? []) as Rule[]).flatMap(({ verbs, resources }, rule) =>
      verbs.map((verb) => ({ kind, metadata, rule, verb, resource: resources[0] })),
    ),
  )
  t.strictSame(
    permissions.map(({ metadata, verb, resource }) => [metadata.namespace ?? '', verb, resource]),
    [
      ['', 'get', 'compositecontrollers'],
      ['vec-system', 'get', 'secrets'],
      ['shop', 'create', 'veccollections'],
      ['shop', 'get', 'veccollections'],
      ['shop', 'delete', 'veccollections'],
    ],
  )
  for (const { kind, metadata, rule, verb, resource } of permissions) {
    const one = await installation(t)
    one.pauses.act = () => writeStatus(one, { phase: 'Pending', observedGeneration: 1 })
    const { namespace = '', name } = metadata
    const apiVersion = 'rbac.authorization.k8s.io/v1'
    const live = (await one.api.get({ apiVersion, kind, namespace, name })) as ApiObject
    const rules = live['rules'] as Rule[]
    const verbs = rules[rule]?.verbs.filter((other) => other !== verb) ?? []
    rules[rule] = { ...(rules[rule] as Rule), verbs: ['watch', ...verbs] }
    await one.api.replace(live)
    const { passed, report } = await one.run('shop')
    t.notOk(passed)
    t.match(report, `cannot ${verb} resource "${resource}"`)
  }
})

interface Rule {
  resources: string[]
  verbs: string[]
}

t.test(
  'the operator reconciles and deletes the resource, and reports its impossible cluster',
  async (t) => {
    const world = await startEmbeddedWorld()
    t.teardown(() => world.close())
    const namespace = await world.namespace('checked')
    const authorize = async () => ({
      headers: { authorization: `Bearer ${world.api.token}` },
      dispatcher: undefined,
    })
    const kubernetes = new Kubernetes(
      { server: world.api.url, authorize },
      pino({ level: 'silent' }),
    )
    const phases = new Set<string>()
    const time = {
      monotonicMs: () => world.now().getTime(),
      sleep: async (ms: number) => {
        await world.advance(ms / 1000)
        const found = await world.list('vec-operator.dev/v1alpha1', 'VecCollection', namespace)
        for (const object of found) phases.add(readyReason(object))
      },
    }
    t.strictSame(await reconcileErrors({ kubernetes, time }, namespace), [])
    t.strictSame([...phases].at(-1), 'ClusterNotFound')
    t.strictSame(await world.list('vec-operator.dev/v1alpha1', 'VecCollection', namespace), [])
  },
)

function readyReason(object: object): string {
  const { status } = object as { status?: { conditions?: { type: string; reason: string }[] } }
  return status?.conditions?.find(({ type }) => type === 'Ready')?.reason ?? ''
}
