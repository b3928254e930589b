/** The post-renderer of helm: the partition of one StatefulSet changes, and no other byte. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { withPartition } from '../../../jobs/cluster/post-render.ts'

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
  const changed = withPartition(MANIFESTS, { release: 'vec-a', partition: 3 })
  const expected = MANIFESTS.replace('partition: 0   # fixed', 'partition: 3   # fixed')
  t.not(expected, MANIFESTS)
  t.equal(changed, expected)
  t.end()
})

t.test('a chart without a partition is left as it is', (t) => {
  for (const strategy of ['', '  updateStrategy:\n    type: OnDelete\n']) {
    const text = `---\nkind: StatefulSet\nmetadata:\n  name: vec-a\nspec:\n${strategy}  replicas: 3\n`
    t.equal(withPartition(text, { release: 'vec-a', partition: 3 }), text)
  }
  t.equal(withPartition('', { release: 'vec-a', partition: 3 }), '')
  t.end()
})

t.test('as helm runs it, for as much as a pipe does not take at once', (t) => {
  const main = fileURLToPath(new URL('../../../jobs/main.ts', import.meta.url))
  const large = `${MANIFESTS}---\nkind: ConfigMap\ndata:\n  large: ${'x'.repeat(1_000_000)}\n`
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [main, 'cluster', 'post-render', 'vec-a', '12'],
    { input: large, maxBuffer: 10_000_000 },
  )
  t.equal(status, 0, stderr.toString())
  t.equal(stdout.toString(), large.replace('partition: 0   # fixed', 'partition: 12   # fixed'))
  t.equal(stderr.toString(), '')
  t.end()
})
