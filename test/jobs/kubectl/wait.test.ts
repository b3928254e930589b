/** `wait`, `logs` and `support-bundle` in an embedded world. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { encodePlan, JOB_ENV } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import type { StatusObject } from '../../../jobs/kubectl/resource.ts'
import { redact } from '../../../jobs/kubectl/support-bundle.ts'
import { judge } from '../../../jobs/kubectl/wait.ts'
import { backupResource, deleted, fill, untilEnded } from '../../scenarios/backup-parts.ts'
import { clusterManifest, clusterReference } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld } from '../../world/embedded.ts'
import { cliFor, runningWithKey } from './cli-user.ts'

const world = await startEmbeddedWorld()
t.teardown(() => world.close())
const namespace = await world.namespace('waited')
const bucket = await world.bucket(namespace)
const type = cliFor(t, world.api, namespace)
const KEY = 'the-key-that-must-stay-secret-1234567890'

await runningWithKey(world, { namespace, name: 'a' }, KEY)

/** A resource of generation 2. */
function object(status: object, metadata: object = {}): StatusObject {
  return {
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata: { name: 'a', generation: 2, ...metadata },
    spec: {},
    status,
  }
}

function condition(conditionType: string, status: string, observedGeneration?: number) {
  return { type: conditionType, status, reason: 'R', message: 'm', observedGeneration }
}

t.test('which states of each kind are done, failed or neither', async (t) => {
  const { success, failure } = EXIT_CODES
  const ready = condition('Ready', 'True', 2)
  const cases: [string, StatusObject, number | undefined][] = [
    ['Completed', object({ phase: 'Completed' }), success],
    ['Failed', object({ phase: 'Failed' }), failure],
    ['Ready', object({ phase: 'Running', conditions: [ready] }), success],
    [
      'Ready of an earlier spec',
      object({ conditions: [condition('Ready', 'True', 1)] }),
      undefined,
    ],
    ['not Ready', object({ conditions: [condition('Ready', 'False', 2)] }), undefined],
    ['an earlier status', object({ observedGeneration: 1, conditions: [ready] }), undefined],
    ['a current status', object({ observedGeneration: 2, conditions: [ready] }), success],
    ['at work', object({ conditions: [ready, condition('Reconciling', 'True')] }), undefined],
    ['stalled', object({ conditions: [ready, condition('Stalled', 'True')] }), failure],
    ['no longer stalled', object({ conditions: [ready, condition('Stalled', 'False')] }), success],
    ['being deleted', object({ phase: 'Running' }, { deletionTimestamp: 'now' }), failure],
    ['no status', { ...object({}), status: undefined } as unknown as StatusObject, undefined],
  ]
  for (const [title, resource, expected] of cases) t.equal(judge(resource), expected, title)
})

t.test('wait ends when a resource is Ready, and prints what it saw', async (t) => {
  const { code, out } = await type('wait', 'qc/a')
  t.equal(code, EXIT_CODES.success)
  t.equal(out, `VecCluster ${namespace}/a  Running  1/1 replicas ready\n`)
})

t.test(
  'wait fails for a resource that waits for a user, is missing, or is not done in time',
  async (t) => {
    await world.apply(
      clusterManifest(namespace, 'stuck', {
        version: world.versions.newer,
        apiKey: { secretRef: { name: 'none', key: 'key' } },
      }),
    )
    await world.advance(30)
    const stuck = await type('wait', 'qc', 'stuck')
    t.equal(stuck.code, EXIT_CODES.failure)
    t.match(stuck.out, /Secret none does not exist/)
    const missing = await type('wait', 'qc/nope')
    t.equal(missing.code, EXIT_CODES.failure)
    t.match(missing.err, new RegExp(`VecCluster ${namespace}/nope not found`))
    await world.faults.stopService()
    await world.apply(clusterManifest(namespace, 'late', { version: world.versions.newer }))
    const late = await type('wait', 'qc/late', '--timeout', '5s')
    t.equal(late.code, EXIT_CODES.failure)
    t.match(late.err, /VecCluster \S+\/late is not done after 5s/)
    await world.faults.startService()
    await deleted(world, clusterReference(namespace, 'late'))
    const wrong = await type('wait', 'qc/a', '--timeout', 'soon')
    t.equal(wrong.code, EXIT_CODES.usage)
    t.match(wrong.err, /--timeout: "soon" is not a duration/)
  },
)

t.test('logs prints the log of the newest Job, or of the one that is named', async (t) => {
  await fill(world, namespace, 'docs').catch(() => undefined)
  const { reference, of } = backupResource('VecBackup', { namespace, name: 'one' }, bucket)
  await world.apply(of())
  const { jobName = '' } = await untilEnded(world, reference)
  // The Job writes its last line after its last report.
  const job = { apiVersion: 'batch/v1', kind: 'Job', namespace, name: jobName }
  await world.waitFor(job, 'ended', (object) => {
    const { status = {} } = (object ?? {}) as { status?: { succeeded?: number } }
    return status.succeeded === 1
  })
  const { code, out } = await type('logs', 'qb/one')
  t.equal(code, EXIT_CODES.success)
  t.match(out, /run started/)
  t.match(out, /backup run completed/)
  const named = await type('logs', 'qb/one', '--job', 'nope')
  t.equal(named.code, EXIT_CODES.failure)
  t.match(named.err, /has no Job nope/)
  const none = await type('logs', 'qb/nope')
  t.match(none.err, /VecBackup \S+\/nope not found/)
})

t.test(
  'a support bundle has the resources, their Jobs, logs and Events, and no secret',
  async (t) => {
    const file = join(t.testdir({}), 'bundle.json')
    const { code, out } = await type('support-bundle', '--output', file)
    t.equal(code, EXIT_CODES.success)
    t.match(out, /bundle\.json written; 0 errors/)
    t.equal(statSync(file).mode & 0o777, 0o600)
    const text = readFileSync(file, 'utf8')
    t.notMatch(text, KEY)
    t.notMatch(text, bucket.access.secretAccessKey)
    const bundle = JSON.parse(text) as {
      resources: Record<string, { metadata: { name: string } }[]>
      objects: Record<string, { metadata: { name: string } }[]>
      logs: Record<string, string>
      engines: Record<string, { nodes: { pod: string }[] }>
      errors: string[]
    }
    t.strictSame(bundle.errors, [])
    const names = (objects: { metadata: { name: string } }[] = []) =>
      objects.map(({ metadata }) => metadata.name)
    t.ok(names(bundle.resources['vecclusters']).includes('a'))
    t.strictSame(names(bundle.resources['vecbackups']), ['one'])
    t.ok(names(bundle.objects['jobs']).some((name) => name.startsWith('one-backup-')))
    t.ok(names(bundle.objects['statefulsets']).includes('vec-a'))
    t.ok(names(bundle.objects['pods']).includes('vec-a-0'))
    t.ok((bundle.objects['events'] ?? []).length > 0)
    t.match(Object.values(bundle.logs).join(''), /backup run completed/)
    t.equal(bundle.engines['a']?.nodes[0]?.pod, 'vec-a-0')
    const printed = await type('support-bundle', '-o', '-')
    t.same(Object.keys(JSON.parse(printed.out) as object), Object.keys(bundle))
    t.notOk(existsSync(`vec-operator-${namespace}.json`))
    const unwritable = await type('support-bundle', '--output', join(file, 'bundle.json'))
    t.equal(unwritable.code, EXIT_CODES.failure)
    t.match(unwritable.err, /^vec-operator: E[A-Z]+: .*bundle\.json'\n$/)
  },
)

t.test(
  'logs and support-bundle read the container of the Job in a pod with an injected one',
  async (t) => {
    const pods = await world.list('v1', 'Pod', namespace)
    const [pod] = pods.filter(({ metadata }) => metadata.name.startsWith('one-backup-'))
    const { containers } = (pod as unknown as { spec: { containers: object[] } }).spec
    const injected = [{ name: 'istio-proxy', image: 'proxy' }, ...containers]
    const reference = { apiVersion: 'v1', kind: 'Pod', namespace, name: pod?.metadata.name ?? '' }
    await world.patch(reference, { spec: { containers: injected } })
    const { code, out } = await type('logs', 'qb/one')
    t.equal(code, EXIT_CODES.success)
    t.match(out, /backup run completed/)
    const { logs, errors } = JSON.parse((await type('support-bundle', '-o', '-')).out) as {
      logs: Record<string, string>
      errors: string[]
    }
    t.strictSame(errors, [])
    t.match(logs[`${reference.name}/backup`], /backup run completed/)
    t.ok(`${reference.name}/istio-proxy` in logs)
  },
)

t.test('secrets in JSON, plans of Jobs and URLs are replaced', async (t) => {
  const spec = { config: { storage: { s3_config: { access_key: 'a', secret_key: 'b' } } } }
  const redacted = {
    config: { storage: { s3_config: { access_key: 'redacted', secret_key: 'redacted' } } },
  }
  t.strictSame(
    redact({
      spec,
      annotations: { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(spec) },
      env: [
        { name: JOB_ENV.plan, value: encodePlan({ spec }, 'spec') },
        { name: 'HTTPS_PROXY', value: 'http://user:password@proxy:3128' },
      ],
      logs: {
        a: 'error sending request for url (https://store/b/key?X-Amz-Credential=AK&X-Amz-Signature=0a1b)',
        b: '{"message":"one line of several"}\n{"message":"another"}',
      },
    }),
    {
      spec: redacted,
      annotations: { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(redacted) },
      env: [
        { name: JOB_ENV.plan, value: JSON.stringify({ spec: redacted }) },
        { name: 'HTTPS_PROXY', value: 'http://***@proxy:3128' },
      ],
      logs: {
        a: 'error sending request for url (https://store/b/key?X-Amz-Credential=***&X-Amz-Signature=***',
        b: '{"message":"one line of several"}\n{"message":"another"}',
      },
    },
  )
  t.strictSame(redact([{ name: JOB_ENV.plan, value: 'no plan' }]), [
    { name: JOB_ENV.plan, value: 'redacted' },
  ])
})

t.test('fields and variables that are named like a secret are replaced', async (t) => {
  const env = [
    { name: 'API_TOKEN', value: 'a' },
    { name: 'PORT', value: '1' },
    { name: 'KEY', valueFrom: { secretKeyRef: { name: 'own-key', key: 'key' } } },
  ]
  const annotations = {
    'kubectl.kubernetes.io/last-applied-configuration': '{"password":"x"}',
    'vec-operator.dev/signature': 'abc',
  }
  t.strictSame(
    redact({ config: { service: { api_key: 'k', list: [{ password: 'p' }] } }, env, annotations }),
    {
      config: { service: { api_key: 'redacted', list: [{ password: 'redacted' }] } },
      env: [{ name: 'API_TOKEN', value: 'redacted' }, env[1], env[2]],
      annotations: { 'vec-operator.dev/signature': 'redacted' },
    },
  )
})
