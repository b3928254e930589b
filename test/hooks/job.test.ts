/** The pod of every Job: what an installation sets, and what the strictest Pod Security Standard asks. */
import { createHmac } from 'node:crypto'
import t from 'tap'
import { encodePlan } from '../../crds/contract/job.ts'
import { ANNOTATIONS, secretCopyName, shortHash } from '../../crds/contract/names.ts'
import { newJob, type JobOptions } from '../../hooks/job.ts'
import { unchanged, latestJob, childrenAfter } from '../../hooks/request.ts'
import { jobImage, planHash } from '../../hooks/job-watch.ts'
import type { Settings } from '../../hooks/protocol.ts'
import { helmJob, settings } from '../builders.ts'
import { matchWhole } from '../match-whole.ts'

const COMPONENT = 'app.kubernetes.io/component'

interface Pod {
  automountServiceAccountToken: boolean
  imagePullSecrets?: { name: string }[]
  securityContext: object
  containers: {
    image: string
    imagePullPolicy: string
    securityContext: object
    env: { name: string; value?: string }[]
    volumeMounts: object[]
  }[]
  volumes: Record<string, unknown>[]
}

function podWith(more: Partial<Settings> = {}, options: Partial<JobOptions> = {}): Pod {
  const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
  const resources = { requests: {}, limits: {} }
  const spec = { kind: 'cluster', verb: 'upgrade', plan, largeField: 'spec', resources }
  const job = newJob(
    { ...spec, serviceAccount: 'cluster-1', credentials: { engine: 'key' }, ...options },
    { ...settings, ...more },
  )
  return (job['spec'] as { template: { spec: Pod } }).template.spec
}

t.test('a Job depends on its plan, its ServiceAccount and the image only', async (t) => {
  const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
  const resources = { requests: { cpu: '50m' }, limits: { memory: '1Gi' } }
  const labels = {
    'app.kubernetes.io/managed-by': 'vec-operator',
    'vec-operator.dev/parent': 'u',
    'vec-operator.dev/verb': 'run',
  }
  const field = (name: string, fieldPath: string) => ({
    name,
    valueFrom: { fieldRef: { fieldPath } },
  })
  const spec = {
    ...{ kind: 'backup', verb: 'run', plan, largeField: 'spec', serviceAccount: 'sa', resources },
    credentials: { bucket: 's3' },
    secretCopies: ['engine'] as const,
  }
  const name = 'a-backup-f01de-1'
  const expected = (more: object) => {
    const all = { ...labels, ...more }
    return {
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: {
        ...{ name, namespace: 'ns', labels: all },
        annotations: {
          'vec-operator.dev/plan': 'h',
          'vec-operator.dev/image': 'vec-operator:test',
          'vec-operator.dev/signature': createHmac('sha256', 'test-key')
            .update(JSON.stringify(['vec-operator job', 'ns', name, 'u']))
            .digest('hex'),
        },
      },
      spec: {
        backoffLimit: 6,
        podFailurePolicy: {
          rules: [
            {
              action: 'FailJob',
              onExitCodes: { containerName: 'backup', operator: 'In', values: [1] },
            },
            { action: 'Ignore', onPodConditions: [{ type: 'DisruptionTarget', status: 'True' }] },
          ],
        },
        template: {
          metadata: { labels: all },
          spec: {
            restartPolicy: 'Never',
            serviceAccountName: 'sa',
            automountServiceAccountToken: true,
            enableServiceLinks: false,
            terminationGracePeriodSeconds: 60,
            securityContext: {
              ...{ runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 },
              seccompProfile: { type: 'RuntimeDefault' },
            },
            containers: [
              {
                name: 'backup',
                image: settings.image,
                imagePullPolicy: 'IfNotPresent',
                args: ['jobs/main.js', 'backup', 'run', 'ns/a'],
                env: [
                  { name: 'PLAN', value: encodePlan(plan, 'spec') },
                  field('POD_UID', 'metadata.uid'),
                  field('JOB_UID', "metadata.labels['controller-uid']"),
                  { name: 'CLUSTER_DOMAIN', value: 'cluster.local' },
                  { name: 'NODE_OPTIONS', value: '--use-system-ca --max-semi-space-size=1' },
                  { name: 'MALLOC_ARENA_MAX', value: '2' },
                  { name: 'LOG_LEVEL', value: 'INFO' },
                  { name: 'LOG_FORMAT', value: 'json' },
                  { name: 'HELM_CACHE_HOME', value: '/tmp/helm/cache' },
                  { name: 'HELM_CONFIG_HOME', value: '/tmp/helm/config' },
                  { name: 'HELM_DATA_HOME', value: '/tmp/helm/data' },
                ],
                resources,
                securityContext: {
                  allowPrivilegeEscalation: false,
                  readOnlyRootFilesystem: true,
                  capabilities: { drop: ['ALL'] },
                },
                volumeMounts: [
                  { name: 'tmp', mountPath: '/tmp' },
                  { name: 'bucket', mountPath: '/var/run/vec/bucket', readOnly: true },
                  { name: 'engine', mountPath: '/var/run/vec/engine', readOnly: true },
                ],
              },
            ],
            volumes: [
              { name: 'tmp', emptyDir: {} },
              { name: 'bucket', secret: { secretName: 's3', optional: true } },
              { name: 'engine', secret: { secretName: secretCopyName(name, 'engine') } },
            ],
          },
        },
      },
    }
  }
  t.strictSame(newJob(spec, settings), expected({ [COMPONENT]: 'transfer' }))
  t.strictSame(
    newJob({ ...spec, release: 'vec-a' }, settings),
    expected({ [COMPONENT]: 'helm', 'vec-operator.dev/release': 'vec-a' }),
  )
})

t.test('the image of a Job is pulled as the chart says', async (t) => {
  t.equal(podWith().imagePullSecrets, undefined)
  const pod = podWith({ imagePullSecrets: ['registry', 'mirror'], imagePullPolicy: 'Always' })
  t.strictSame(
    pod.imagePullSecrets,
    ['registry', 'mirror'].map((name) => ({
      name: `a-upgrade-f01de-1-pull-${shortHash(name)}`,
    })),
  )
  matchWhole(t, pod.containers, [{ image: settings.image, imagePullPolicy: 'Always' }])
})

t.test('a Job that downloads the chart waits for its pull Secret, and has the CA', async (t) => {
  const chart = { ...settings.chart, pullSecret: 'registry', caBundle: 'PEM' }
  const { containers, volumes } = podWith({}, { release: 'vec-a', chart })
  const folder = '/var/run/vec/chart-registry'
  t.strictSame(
    volumes.find(({ name }) => name === 'chart-registry'),
    {
      name: 'chart-registry',
      secret: {
        secretName: `a-upgrade-f01de-1-pull-${shortHash('registry')}`,
        items: [{ key: '.dockerconfigjson', path: 'config.json' }],
      },
    },
  )
  const mount = { name: 'chart-registry', mountPath: folder, readOnly: true }
  t.strictSame(containers[0]?.volumeMounts.at(-1), mount)
  const added = containers[0]?.env.filter(({ name }) =>
    ['HELM_REGISTRY_CONFIG', 'ENGINE_CHART_CA'].includes(name),
  )
  t.strictSame(added, [
    { name: 'HELM_REGISTRY_CONFIG', value: `${folder}/config.json` },
    { name: 'ENGINE_CHART_CA', value: 'PEM' },
  ])
})

t.test('a Job that downloads the chart by HTTP waits for the credentials', async (t) => {
  const chart = { ...settings.chart, credentialsSecret: 'charts' }
  const { containers, volumes } = podWith({}, { release: 'vec-a', chart })
  const plain = podWith({}, { release: 'vec-a', chart: settings.chart })
  const secretName = `a-upgrade-f01de-1-pull-${shortHash('charts')}`
  t.strictSame(volumes, [...plain.volumes, { name: 'chart-credentials', secret: { secretName } }])
  const added = (of: 'env' | 'volumeMounts') => {
    const former = plain.containers[0]?.[of].map((one) => JSON.stringify(one))
    return containers[0]?.[of].filter((one) => !former?.includes(JSON.stringify(one)))
  }
  t.strictSame(added('volumeMounts'), [
    { name: 'chart-credentials', mountPath: '/var/run/vec/chart-credentials', readOnly: true },
  ])
  t.strictSame(added('env'), [{ name: 'ENGINE_CHART_CREDENTIALS', value: 'chart-credentials' }])
})

t.test('the pod of a Job keeps to the Pod Security Standard restricted', async (t) => {
  const { securityContext, containers, volumes } = podWith()
  t.match(securityContext, {
    ...{ runAsNonRoot: true, runAsUser: 1000 },
    seccompProfile: { type: 'RuntimeDefault' },
  })
  for (const container of containers) {
    t.strictSame(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
  }
  const kinds = volumes.flatMap((volume) => Object.keys(volume).filter((key) => key !== 'name'))
  t.strictSame([...new Set(kinds)].sort(), ['emptyDir', 'secret'])
})

t.test('an observed child is returned with its identity only', async (t) => {
  const { apiVersion, kind } = helmJob()
  const seen = { apiVersion, kind, metadata: { name: 'j', namespace: 'ns', uid: 'u' }, spec: null }
  t.strictSame(unchanged(seen), { apiVersion, kind, metadata: { name: 'j', namespace: 'ns' } })
  const bare = { apiVersion, kind, metadata: { name: 'j' } }
  t.strictSame(unchanged(bare), bare)
})

t.test('of the children to create, only those that do not exist are created', async (t) => {
  const [one, other] = [helmJob({ run: 1 }), helmJob({ run: 2 })]
  const made = { ...unchanged(helmJob({ run: 2 })), spec: { backoffLimit: 6 } }
  t.strictSame(childrenAfter([one, other], { created: [made] }), [unchanged(one), unchanged(other)])
  t.strictSame(childrenAfter([one], { created: [made] }), [unchanged(one), made])
  const dropped = [{ kind: 'Job', name: one.metadata.name, reason: 'over' }]
  t.strictSame(childrenAfter([one, other], { pruned: dropped }), [unchanged(other)])
  t.strictSame(childrenAfter([one]), [unchanged(one)])
})

t.test('the newest Job is the one with the highest number, in any order', async (t) => {
  const jobs = [2, 10, 9].map((run) => helmJob({ run }))
  t.equal(latestJob(jobs), jobs[1])
  t.equal(latestJob(jobs.toReversed()), jobs[1])
  t.equal(latestJob([]), undefined)
})

t.test('a Job of another creator has neither plan nor image', async (t) => {
  t.strictSame([planHash(helmJob({ plan: 'p' })), jobImage(helmJob())], ['p', settings.image])
  const rewritten = helmJob({ image: 'mirror/vec-operator@sha256:0a' })
  t.equal(jobImage(rewritten), 'mirror/vec-operator@sha256:0a')
  const recorded = { ...rewritten.metadata.annotations, [ANNOTATIONS.image]: settings.image }
  rewritten.metadata.annotations = recorded
  t.equal(jobImage(rewritten), settings.image, 'the image that it was created with')
  const bare = helmJob()
  delete bare.spec
  t.equal(planHash(bare), undefined)
  t.equal(jobImage(bare), undefined)
  const empty = helmJob()
  empty.spec?.template.spec.containers.splice(0)
  t.equal(jobImage(empty), undefined)
})

t.test(
  'pods of Jobs get what the installation sets for their kind, and nothing of the operator is replaced',
  async (t) => {
    const tolerations = [{ key: 'batch', operator: 'Exists' }]
    const affinity = { nodeAffinity: {} }
    const volume = { name: 'ca', configMap: { name: 'ca', optional: true } }
    const mount = { name: 'ca', mountPath: '/etc/ca', readOnly: true }
    const podOf = (component: string) => ({
      labels: { team: component, [COMPONENT]: 'other' },
      annotations: { 'example.dev/pool': component },
      nodeSelector: { pool: component },
      tolerations,
      affinity,
      priorityClassName: component,
      podSecurityContext: { runAsNonRoot: true, fsGroupChangePolicy: component },
      securityContext: { privileged: false },
      env: [
        { name: 'HTTPS_PROXY', value: 'http://proxy:3128' },
        { name: 'PLAN', value: 'another' },
        { name: 'NODE_OPTIONS', value: '--inspect' },
      ],
      volumes: [volume],
      volumeMounts: [mount],
    })
    const jobPods = { helm: podOf('helm'), data: podOf('data') }
    const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
    const options = {
      ...{ kind: 'cluster', verb: 'upgrade', plan, largeField: 'spec', serviceAccount: 'sa' },
      ...{ resources: { requests: {}, limits: {} }, credentials: {} },
    }
    const templateOf = (more: object, pods: Settings['jobPods']) => {
      const job = newJob({ ...options, ...more }, { ...settings, jobPods: pods })
      return (job['spec'] as { template: Template }).template
    }
    for (const [component, own, more] of [
      ['helm', 'helm', { release: 'vec-a' }],
      ['data', 'transfer', {}],
    ] as const) {
      const plain = templateOf(more, { helm: {}, data: {} })
      const template = templateOf(more, jobPods)
      t.strictSame(template.metadata, {
        labels: { team: component, ...plain.metadata.labels },
        annotations: { 'example.dev/pool': component },
      })
      t.equal(template.metadata.labels[COMPONENT], own)
      const [container] = plain.spec.containers
      t.strictSame(template.spec, {
        ...plain.spec,
        ...{ nodeSelector: { pool: component }, tolerations, affinity },
        priorityClassName: component,
        securityContext: { runAsNonRoot: true, fsGroupChangePolicy: component },
        containers: [
          {
            ...container,
            securityContext: { privileged: false },
            env: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }, ...(container?.env ?? [])],
            volumeMounts: [...(container?.volumeMounts ?? []), mount],
          },
        ],
        volumes: [...plain.spec.volumes, volume],
      })
    }
  },
)

t.test('a Job has the DNS domain of the service, whatever its extra variables are', async (t) => {
  const jobPods = { helm: {}, data: { env: [{ name: 'CLUSTER_DOMAIN', value: 'other' }] } }
  const options = {
    ...{ kind: 'backup', verb: 'run', largeField: 'spec', serviceAccount: 'sa' },
    plan: { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' },
    ...{ resources: { requests: {}, limits: {} }, credentials: {} },
  }
  const job = newJob(options, { ...settings, clusterDomain: 'k8s.example', jobPods })
  const { template } = job['spec'] as { template: Template }
  t.strictSame(
    template.spec.containers[0]?.env.filter(({ name }) => name === 'CLUSTER_DOMAIN'),
    [{ name: 'CLUSTER_DOMAIN', value: 'k8s.example' }],
  )
})

interface Template {
  metadata: { labels: Record<string, string>; annotations?: Record<string, string> }
  spec: {
    containers: { env: { name: string }[]; volumeMounts: object[] }[]
    volumes: object[]
  }
}
