/** Fields of a VecCluster that are part of its pods: what is refused before helm runs. */
import t from 'tap'
import type { ClusterSpec } from '../../../crds/cluster.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { validateSpec } from '../../../hooks/cluster/validation.ts'
import { chartValues } from '../../../hooks/cluster/values.ts'
import { applied, cluster, progress, settings, statefulSet } from '../../builders.ts'

const DIGEST = `sha256:${'0a'.repeat(32)}`

function errorOf(spec: Partial<ClusterSpec>): string | undefined {
  return validateSpec(cluster({ spec }), undefined)
}

t.test(
  'labels and annotations that the chart, Kubernetes or the operator sets are refused',
  async (t) => {
    const chart = 'which the engine chart sets: remove it'
    const kubernetes = 'which Kubernetes sets: remove it'
    const operator = 'which belongs to the operator: remove it'
    const rows: [field: 'podLabels' | 'podAnnotations', key: string, end: string][] = [
      ['podLabels', 'app', chart],
      ['podLabels', 'app.kubernetes.io/name', chart],
      ['podLabels', 'app.kubernetes.io/instance', chart],
      ['podLabels', 'controller-revision-hash', kubernetes],
      ['podLabels', 'statefulset.kubernetes.io/pod-name', kubernetes],
      ['podLabels', 'apps.kubernetes.io/pod-index', kubernetes],
      ['podLabels', 'vec-operator.dev/parent', operator],
      ['podAnnotations', 'checksum/config', chart],
      ['podAnnotations', 'checksum/secret', chart],
      ['podAnnotations', 'vec-operator.dev/restart', operator],
      ['podAnnotations', 'a.vec-operator.dev/b', operator],
    ]
    for (const [field, key, end] of rows) {
      t.equal(errorOf({ [field]: { fine: 'a', [key]: 'b' } }), `spec.${field} has "${key}", ${end}`)
    }
  },
)

t.test('labels and annotations that the API server would not accept are refused', async (t) => {
  const syntax = 'must be a name of at most 63 letters, digits, "-", "_" and ".", with or without'
  const long = 'x'.repeat(64)
  for (const field of ['podLabels', 'podAnnotations'] as const) {
    for (const key of [
      '',
      'a b',
      '-a',
      'a-',
      'a/b/c',
      '/a',
      'A_b/c',
      long,
      `${'x'.repeat(254)}/a`,
    ]) {
      t.equal(
        errorOf({ [field]: { [key]: 'b' } }),
        `spec.${field}: the key ${JSON.stringify(key.slice(0, 80))} ${syntax} a DNS name and "/" before it`,
      )
    }
  }
  for (const value of ['a b', '-a', 'a-', long, 'ü', 'a\n']) {
    t.equal(
      errorOf({ podLabels: { a: value } }),
      'spec.podLabels: the value of "a" must be empty or at most 63 letters, digits, "-", "_" and ".", with a letter or digit at both ends',
    )
    t.equal(errorOf({ podAnnotations: { a: value } }), undefined)
  }
})

t.test('all other labels and annotations are let through', async (t) => {
  const name = 'x'.repeat(63)
  t.equal(
    errorOf({
      podLabels: {
        [name]: name,
        'app.kubernetes.io/part-of': 'Search_1.0',
        'a.b-c/D': '',
        apps: '1',
      },
      podAnnotations: {
        'checksum/other': '{{ .Values }}',
        'my-vec-operator.dev/a': 'x'.repeat(500),
      },
    }),
    undefined,
  )
})

t.test(
  'a change is a new template of the pods, which a formed cluster updates one by one',
  async (t) => {
    const run = (spec: Partial<ClusterSpec>) =>
      desiredRun(
        {
          cluster: cluster({
            spec: { replicas: 3, ...spec },
            status: { formedNodes: 3 },
            annotations: { 'vec-operator.dev/last-applied-spec': JSON.stringify(cluster().spec) },
          }),
          statefulSet: statefulSet(3),
          jobs: [],
          children: [],
          secrets: new Map(),
          progress: progress({ applied: applied() }),
        },
        settings,
      )
    const former = run({})
    const { image } = cluster().spec
    for (const spec of [
      { podLabels: { a: 'b' } },
      { podAnnotations: { a: 'b' } },
      { image: { ...image, digest: DIGEST } },
    ]) {
      const changed = run(spec)
      t.not(changed.podsHash, former.podsHash)
      t.equal(changed.isGated, true)
    }
  },
)

t.test('the digest is not among the values of the chart', async (t) => {
  const { image } = cluster().spec
  const spec = { image: { ...image, digest: DIGEST } }
  t.strictSame(chartValues(cluster({ spec }), { hasCaCertificate: false })['image'], image)
})

function imageErrorAfter(
  former: { version?: string; image?: object },
  spec: { version?: string; image?: object },
) {
  const { spec: defaults } = cluster()
  const image = { ...defaults.image, digest: DIGEST }
  const lastApplied = { ...defaults, ...former, image: { ...image, ...former.image } }
  return validateSpec(
    cluster({
      spec: { ...spec, image: { ...image, ...spec.image } },
      annotations: { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(lastApplied) },
    }),
    undefined,
  )
}

t.test('another version or variant of the image with the former digest is refused', async (t) => {
  const digest = `sha256:${'b'.repeat(64)}`
  t.equal(imageErrorAfter({}, {}), undefined)
  t.equal(imageErrorAfter({ version: 'v1.18.3' }, {}), undefined, 'the same version')
  t.equal(imageErrorAfter({}, { image: { repository: 'mirror/engine' } }), undefined)
  t.equal(imageErrorAfter({ version: '1.18.2', image: { digest } }, {}), undefined, 'both changed')
  t.equal(imageErrorAfter({ version: '1.18.2', image: { digest: undefined } }, {}), undefined)
  t.equal(
    imageErrorAfter({ version: 'v1.18.2' }, {}),
    'spec.image.digest is the digest of 1.18.2, but the spec requires 1.18.3: set the digest of that image too, or remove spec.image.digest',
  )
  t.equal(
    imageErrorAfter({}, { image: { unprivileged: true } }),
    'spec.image.digest is the digest of 1.18.3, but the spec requires 1.18.3-unprivileged: set the digest of that image too, or remove spec.image.digest',
  )
})

t.test('a digest that an older CRD admitted is checked', async (t) => {
  for (const digest of ['latest', `sha256:${'g'.repeat(64)}`, `${DIGEST}\nx`]) {
    const message = 'spec.image.digest must be sha256: and 64 hex digits in lower case'
    t.equal(imageErrorAfter({}, { image: { digest } }), message)
  }
})
