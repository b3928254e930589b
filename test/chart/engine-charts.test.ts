/** What the engine's charts of all supported versions render for fields of the pods, with the real helm. */
import { globSync } from 'node:fs'
import { basename, join } from 'node:path'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import type { ClusterSpec } from '../../crds/cluster.ts'
import { adjustManifests } from '../../jobs/cluster/post-render.ts'
import { cacheFolder } from '../real-parts.ts'
import { CASES } from './cases.ts'
import { helmTemplate, valuesFor } from './compare.ts'
import { findHelm } from './helm.ts'
import { imagesIn } from './objects.ts'

const helm = findHelm()
const charts = globSync(join(cacheFolder(process.env), 'parts/chart-*')).toSorted()

const DIGEST = `sha256:${'0a'.repeat(32)}`

interface Container {
  name: string
  image: string
  command: string[]
  securityContext: object
}

interface Template {
  metadata: { labels: Record<string, string>; annotations: Record<string, string> }
  spec: { containers: Container[]; initContainers: Container[] | null; securityContext: object }
}

interface Rendered {
  metadata?: { annotations?: Record<string, string> }
}

interface Monitor {
  kind?: string
  spec: { endpoints: object[] }
}

async function rendered(chart: string, spec: Partial<ClusterSpec>): Promise<string> {
  if (helm === undefined) throw new Error('no helm')
  return helmTemplate(helm, chart, valuesFor({ name: '', spec }))
}

async function renderedTemplate(chart: string, spec: Partial<ClusterSpec>): Promise<Template> {
  return templateIn(await rendered(chart, spec))
}

function templateIn(manifests: string): Template {
  const object = parseAllDocuments(manifests)
    .map((document) => document.toJS() as { kind?: string; spec: { template: Template } } | null)
    .find((one) => one?.kind === 'StatefulSet')
  if (object == null) throw new Error('no StatefulSet is rendered')
  return object.spec.template
}

function specOf(name: string): Partial<ClusterSpec> {
  const found = CASES.find((one) => one.name === name)
  if (found === undefined) throw new Error(`no case ${name}`)
  return found.spec
}

if (helm === undefined || charts.length === 0) {
  t.pass('no chart of the engine was built here: nothing to render', { skip: true })
}

for (const chart of helm === undefined ? [] : charts) {
  t.test(
    `${basename(chart)}: labels and annotations are added to those of the chart`,
    async (t) => {
      const spec = specOf('podLabels and podAnnotations')
      const { metadata } = await renderedTemplate(chart, spec)
      const { metadata: plain } = await renderedTemplate(chart, {})
      t.strictSame(Object.keys(plain.labels).toSorted(), [
        'app',
        'app.kubernetes.io/instance',
        'app.kubernetes.io/name',
      ])
      t.strictSame(metadata.labels, { ...plain.labels, ...spec.podLabels })
      t.strictSame(metadata.annotations, { ...plain.annotations, ...spec.podAnnotations })
    },
  )

  t.test(`${basename(chart)}: no pod has another image than that of the spec`, async (t) => {
    const version = basename(chart).replace('chart-', '')
    const image = { repository: 'registry.example/engine', pullPolicy: 'Always' as const }
    for (const [unprivileged, suffix] of [
      [false, ''],
      [true, '-unprivileged'],
    ] as const) {
      const spec = { version, image: { ...image, unprivileged } }
      const images = parseAllDocuments(await rendered(chart, spec))
        .map((document) => document.toJS() as Rendered | null)
        // Only "helm test" creates the others.
        .filter((object) => object?.metadata?.annotations?.['helm.sh/hook'] === undefined)
        .flatMap((object) => imagesIn(object))
      t.strictSame([...new Set(images)], [`registry.example/engine:v${version}${suffix}`])
    }
  })

  t.test(`${basename(chart)}: the pods have the grace period of the spec`, async (t) => {
    const spec = { terminationGracePeriodSeconds: 120 }
    const manifests = await rendered(chart, spec)
    const changed = adjustManifests(manifests, { release: 'vec-a', gracePeriod: 120 })
    const { spec: plain } = await renderedTemplate(chart, {})
    t.strictSame(templateIn(changed).spec, { ...plain, ...spec })
  })

  t.test(`${basename(chart)}: only the endpoint of the ServiceMonitor gets TLS`, async (t) => {
    const serviceMonitor = { enabled: true, interval: '30s', labels: {} }
    const manifests = await rendered(chart, { metrics: { enabled: true, serviceMonitor } })
    const monitorTls = { serverName: 'vec-a.ns.svc.cluster.local', caSecret: 'certificate' }
    const changed = adjustManifests(manifests, { release: 'vec-a', monitorTls })
    const objects = (text: string) =>
      parseAllDocuments(text).map((document) => document.toJS() as Monitor | null)
    const ca = { secret: { name: 'certificate', key: 'ca.crt' } }
    const expected = objects(manifests).map((one) =>
      one?.kind === 'ServiceMonitor'
        ? {
            ...one,
            spec: {
              ...one.spec,
              endpoints: one.spec.endpoints.map((endpoint) => ({
                ...endpoint,
                scheme: 'https',
                tlsConfig: { serverName: monitorTls.serverName, ca },
              })),
            },
          }
        : one,
    )
    t.equal(objects(manifests).filter((one) => one?.kind === 'ServiceMonitor').length, 1)
    t.strictSame(objects(changed), expected)
  })

  t.test(`${basename(chart)}: user and groups are those of the spec, of any size`, async (t) => {
    const { spec } = await renderedTemplate(chart, specOf('securityContext'))
    const { spec: plain } = await renderedTemplate(chart, {})
    t.strictSame(spec.securityContext, {
      ...{ fsGroup: 1_000_680_002, fsGroupChangePolicy: 'OnRootMismatch' },
    })
    t.strictSame(spec.containers[0]?.securityContext, {
      ...plain.containers[0]?.securityContext,
      ...{ runAsUser: 1_000_680_000, runAsGroup: 1_000_680_001 },
    })
    t.ok(spec.initContainers?.[0]?.command.includes('1000680000:1000680002'))
  })

  for (const unprivileged of [false, true]) {
    t.test(
      `${basename(chart)}: every container has the digest${unprivileged ? ', unprivileged too' : ''}`,
      async (t) => {
        const repository = 'registry.example:5000/a/engine'
        const image = {
          repository,
          pullPolicy: 'IfNotPresent',
          unprivileged,
          digest: DIGEST,
        } as const
        const manifests = await rendered(chart, { image })
        const pinned = `${repository}@${DIGEST}`
        const changed = adjustManifests(manifests, { release: 'vec-a', image: pinned })
        const { spec } = templateIn(changed)
        const version = basename(chart).replace('chart-', '')
        const tag = unprivileged ? `${version}-unprivileged` : version
        t.strictSame(
          [...(spec.initContainers ?? []), ...spec.containers].map((one) => [one.name, one.image]),
          [
            ...(unprivileged ? [] : [['ensure-dir-ownership', `${repository}:v${tag}@${DIGEST}`]]),
            ['qdrant', `${repository}:v${tag}@${DIGEST}`],
          ],
        )
        t.equal(changed.replaceAll(`@${DIGEST}`, ''), manifests, 'nothing else changes')
      },
    )
  }
}
