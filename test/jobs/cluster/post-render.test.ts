/** The post-renderer of helm: the partition of one StatefulSet, the ports of one Service, and no other byte. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import type { MonitorTls } from '../../../crds/contract/job.ts'
import { SECRET_CHECKSUM } from '../../../crds/contract/names.ts'
import { adjustManifests } from '../../../jobs/cluster/post-render.ts'

const MANIFESTS = `---
# Source: qdrant/templates/configmap.yaml
apiVersion: v1
kind: ConfigMap
metadata:
  name: vec-a
data:
  note: |
    kind: StatefulSet
    partition: 0
---
# Source: qdrant/templates/statefulset.yaml
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: vec-a
  annotations: { on: 'yes' }
spec:
  replicas: 3
  podManagementPolicy: Parallel
  updateStrategy:
    type: RollingUpdate
    rollingUpdate:
      partition: 0   # fixed by the chart
  template:
    spec:
      volumes:
        - configMap:
            name: vec-a
            defaultMode: 0755
---
# Source: qdrant/templates/other.yaml
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: vec-b
spec:
  updateStrategy:
    rollingUpdate:
      partition: 0
`

t.test('only the partition of the StatefulSet with this name changes', (t) => {
  const changed = adjustManifests(MANIFESTS, { release: 'vec-a', partition: 3 })
  const expected = MANIFESTS.replace('partition: 0   # fixed', 'partition: 3   # fixed')
  t.not(expected, MANIFESTS)
  t.equal(changed, expected)
  t.end()
})

t.test('the pods of a chart without a value for it get their grace period', (t) => {
  const changed = adjustManifests(MANIFESTS, { release: 'vec-a', partition: 3, gracePeriod: 120 })
  const field = 'terminationGracePeriodSeconds: 120'
  const expected = MANIFESTS.replace('partition: 0   # fixed', 'partition: 3   # fixed').replace(
    '      volumes:\n',
    `      ${field}\n      volumes:\n`,
  )
  t.equal(changed, expected)
  t.equal(changed.split(field).length, 2)
  t.equal(adjustManifests(expected, { release: 'vec-a', gracePeriod: 60 }), expected)
  t.equal(adjustManifests(MANIFESTS, { release: 'vec-b', gracePeriod: 60 }), MANIFESTS)
  t.end()
})

/** As the engine's chart renders it. */
const SERVICE = `---
# Source: qdrant/templates/service.yaml
apiVersion: v1
kind: Service
metadata:
  name: vec-a
  annotations:
    example.dev/note: "yes"
    example.dev/long: ${'word '.repeat(40)}end
spec:
  type: LoadBalancer
  ports:
    - name: http
      port: 6333
      targetPort: 6333
      nodePort: 30001
      protocol: TCP
    - name: grpc
      port: 6334
      targetPort: 6334
      protocol: TCP
    - name: p2p
      port: 6335
      targetPort: 6335
      protocol: TCP
  selector:
    app: qdrant
`
const P2P = /    - name: p2p\n(?: {6}.*\n)+/

t.test('a Service that is reached from outside has no port of the nodes', (t) => {
  for (const type of ['LoadBalancer', 'NodePort']) {
    const text = MANIFESTS + SERVICE.replace('LoadBalancer', type)
    const changed = adjustManifests(text, { release: 'vec-a' })
    t.equal(changed, text.replace(P2P, ''), type)
    t.not(changed, text)
  }
  t.equal(
    adjustManifests(MANIFESTS + SERVICE, { release: 'vec-a', partition: 2 }),
    (MANIFESTS + SERVICE)
      .replace(P2P, '')
      .replace('partition: 0   # fixed', 'partition: 2   # fixed'),
  )
  t.end()
})

t.test('other Services, and Services inside the cluster, are left as they are', (t) => {
  for (const [from, to] of [
    ['type: LoadBalancer', 'type: ClusterIP'],
    ['name: vec-a', 'name: vec-a-headless'],
    ['name: p2p', 'name: other'],
    [/ {2}ports:\n(?: {4}.*\n)+/, ''],
  ] as const) {
    const text = SERVICE.replace(from, to)
    t.not(text, SERVICE)
    t.equal(adjustManifests(text, { release: 'vec-a' }), text)
  }
  t.end()
})

/** As the engine's chart renders it. */
const MONITOR = `---
# Source: qdrant/templates/servicemonitor.yaml
kind: ServiceMonitor
apiVersion: monitoring.coreos.com/v1
metadata:
  name: vec-a
spec:
  endpoints:
    - honorLabels: true
      interval: 30s
      path: /metrics
      port: http
      scheme: http
      scrapeTimeout: 10s
  selector:
    matchLabels:
      app.kubernetes.io/component: cluster-discovery
`

t.test('the ServiceMonitor of nodes with TLS verifies them by name and authority', (t) => {
  const serverName = 'vec-a.ns.svc.cluster.local'
  const secured = (monitorTls: MonitorTls) =>
    adjustManifests(MANIFESTS + MONITOR, { release: 'vec-a', monitorTls })
  const withTls = (tlsConfig: string) =>
    MANIFESTS +
    MONITOR.replace('scheme: http', 'scheme: https').replace(
      'scrapeTimeout: 10s\n',
      `scrapeTimeout: 10s\n      tlsConfig:\n${tlsConfig}`,
    )
  const name = `        serverName: ${serverName}\n`
  t.equal(secured({ serverName }), withTls(name))
  const ca =
    '        ca:\n          secret:\n            name: certificate\n            key: ca.crt\n'
  t.equal(secured({ serverName, caSecret: 'certificate' }), withTls(name + ca))
  const other = MONITOR.replace('name: vec-a', 'name: vec-b')
  t.equal(adjustManifests(other, { release: 'vec-a', monitorTls: { serverName } }), other)
  t.equal(adjustManifests(MONITOR, { release: 'vec-a', partition: 1 }), MONITOR)
  t.end()
})

t.test('a chart without an update strategy gets one, any other than its partition stays', (t) => {
  const setOf = (strategy: string, name = 'vec-a') =>
    `---\nkind: StatefulSet\nmetadata:\n  name: ${name}\nspec:\n${strategy}  replicas: 3\n`
  const added =
    '  updateStrategy:\n    type: RollingUpdate\n    rollingUpdate:\n      partition: 3\n'
  const adjusted = (text: string) => adjustManifests(text, { release: 'vec-a', partition: 3 })
  t.equal(adjusted(setOf('')), setOf(added))
  t.equal(adjustManifests(setOf(''), { release: 'vec-a' }), setOf(''), 'without a partition')
  for (const text of [
    setOf('  updateStrategy:\n    type: OnDelete\n'),
    setOf('', 'vec-b'),
    setOf('').replace('StatefulSet', 'Deployment'),
    '',
  ]) {
    t.equal(adjusted(text), text)
  }
  t.end()
})

t.test('as helm runs it, for as much as a pipe does not take at once', (t) => {
  const main = fileURLToPath(new URL('../../../jobs/main.ts', import.meta.url))
  const large = `${MANIFESTS}---\nkind: ConfigMap\ndata:\n  large: ${'x'.repeat(1_000_000)}\n`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [main, 'cluster', 'post-render', 'vec-a', 'partition=12'],
    { input: large, maxBuffer: 10_000_000 },
  )
  t.equal(status, 0, stderr.toString())
  t.equal(stdout.toString(), large.replace('partition: 0   # fixed', 'partition: 12   # fixed'))
  t.equal(stderr.toString(), '')
  t.end()
})

const IMAGES = `---
kind: StatefulSet
metadata:
  name: vec-a
spec:
  updateStrategy:
    rollingUpdate:
      partition: 0
  template:
    spec:
      initContainers:
      - name: owner
        image: "registry.example:5000/q/engine:v1.18.3"
      containers:
        - { name: engine, image: registry.example:5000/q/engine:v1.18.3 } # of the chart
        - name: other
          image: registry.example:5000/q/engine-tools:v1
        - name: without
`
const PINNED = `registry.example:5000/q/engine@sha256:${'ab'.repeat(32)}`

t.test('containers with the image of the engine get its digest after their tag', async (t) => {
  const pinned = `"registry.example:5000/q/engine:v1.18.3@sha256:${'ab'.repeat(32)}"`
  t.equal(
    adjustManifests(IMAGES, { release: 'vec-a', image: PINNED, partition: 3 }),
    IMAGES.replace('partition: 0', 'partition: 3')
      .replace('"registry.example:5000/q/engine:v1.18.3"', pinned)
      .replace('registry.example:5000/q/engine:v1.18.3 }', `${pinned} }`),
  )
})

t.test('without a container that can get the digest, nothing is installed', async (t) => {
  for (const text of [
    IMAGES.replaceAll('q/engine:', 'q/other:'),
    IMAGES.replaceAll('v1.18.3', `v1.18.3@sha256:${'0'.repeat(64)}`),
    IMAGES.replace('vec-a', 'vec-b'),
    '',
  ]) {
    t.throws(() => adjustManifests(text, { release: 'vec-a', image: PINNED }), {
      message:
        'spec.image.digest: StatefulSet vec-a has no container with the image registry.example:5000/q/engine and a tag',
    })
  }
})

t.test('the partition and the checksum are replaced, in any order', async (t) => {
  const head = 'kind: StatefulSet\nmetadata:\n  name: vec-a\nspec:\n'
  const strategy = '  updateStrategy:\n    rollingUpdate: { partition: 0 }\n'
  const template = `  template:\n    metadata:\n      annotations: { ${SECRET_CHECKSUM}: "former" } # of the chart\n`
  for (const spec of [strategy + template, template + strategy]) {
    t.equal(
      adjustManifests(head + spec, { release: 'vec-a', partition: 12, secretChecksum: 'a"b' }),
      head + spec.replace('partition: 0', 'partition: 12').replace('"former"', String.raw`"a\"b"`),
    )
    t.equal(
      adjustManifests(head + spec, { release: 'vec-a', secretChecksum: 'c' }),
      head + spec.replace('"former"', '"c"'),
    )
  }
})
