import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { parse } from 'yaml'
import { chartValuesPage } from '../../crds/chart-values.ts'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { generate, generatedFiles, repositoryRoot } from '../../crds/generate.ts'

t.test('the committed CRDs and field reference are those of the schemas', async (t) => {
  t.strictSame(generate(repositoryRoot, { check: true }), [], 'run npm run generate')
})

t.test('files that differ are named, and written unless only a check was requested', async (t) => {
  const folder = pathToFileURL(`${t.testdir({ chart: { crds: {} }, crds: {}, docs: {} })}/`)
  const all = [...generatedFiles().keys()]
  t.strictSame(generate(folder, { check: true }), all)
  t.strictSame(generate(folder), all)
  t.strictSame(generate(folder), [])
  writeFileSync(new URL('crds/README.md', folder), 'edited by hand')
  t.strictSame(generate(folder, { check: true }), ['crds/README.md'])
})

t.test('node crds/generate.ts --check ends with 0 when nothing differs', async (t) => {
  const script = fileURLToPath(new URL('crds/generate.ts', repositoryRoot))
  const { status, stdout } = spawnSync(process.execPath, [script, '--check'], { encoding: 'utf8' })
  t.strictSame({ status, stdout }, { status: 0, stdout: '' })
})

t.test('the chart carries the seven CRDs', async (t) => {
  const files = generatedFiles()
  for (const resource of RESOURCES) {
    const crd = parse(files.get(`chart/crds/${resource.plural}.yaml`) ?? '') as {
      metadata: { annotations: Record<string, string> }
    }
    const version = crd.metadata.annotations['vec-operator.dev/version'] ?? ''
    t.match(version, /^\d+\.\d+\.\d+/)
    t.strictSame(crd, JSON.parse(JSON.stringify(customResourceDefinition(resource, version))))
  }
})

t.test(
  'the page of the chart values has each value with type, default and description',
  async (t) => {
    const lines = (generatedFiles().get('docs/chart-values.md') ?? '').split('\n')
    for (const line of [
      '| `image.pullPolicy` | `Always`, `IfNotPresent`, `Never` | `"IfNotPresent"` | When the node pulls the image. |',
      '| `jobs.maxHelm` | integer | `10` | Maximum number of unfinished helm Jobs. |',
      '| `hooks.token.rotation` | string or integer | `""` | Another text creates a new token at once; the old one is accepted for a day. |',
      '| `jobs.pods.data.nodeSelector` | object | `{}` | Labels of the nodes that may run them. |',
    ]) {
      t.ok(lines.includes(line), line)
    }
    const group = {
      properties: { a: { type: 'string', description: 'x|y' }, b: { type: 'object' } },
    }
    const page = (properties: object) =>
      chartValuesPage(JSON.stringify({ properties }), 'a: {a: 1}')
    t.throws(() => page({ a: group }), new Error('chart value a.b has no description'))
    const described = { ...group.properties, b: { type: 'object', description: 'y' } }
    t.match(page({ a: { properties: described } }), '| `a.b` | object |  | y |')
    t.match(page({ a: { properties: described } }), '| `a.a` | string | `1` | x\\|y |')
  },
)

t.test('the field reference names each kind with its fields, rules and columns', async (t) => {
  const text = generatedFiles().get('crds/README.md') ?? ''
  for (const { kind } of RESOURCES) t.match(text, `\n## ${kind}\n`)
  for (const line of [
    '| `replicas` | integer, 1 to 1000 | `1` | Number of nodes; more than 1 requires cluster.enabled. |',
    '| `persistence.size` | quantity | `10Gi` | Size of each data volume. Can be raised if the StorageClass allows expansion; the pods keep running. |',
    '| `vectors[].distance` | `Cosine`, `Euclid`, `Dot`, `Manhattan` | required |',
    '| `ttl` | duration |  |',
    '- spec.tls.enabled requires spec.tls.secretRef.name',
    'Print columns: SOURCE, TARGET, PHASE, PROGRESS, AGE.',
  ]) {
    t.ok(text.includes(line), line)
  }
})
