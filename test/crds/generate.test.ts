import t from 'tap'
import { parse } from 'yaml'
import { definitionOf } from '../../crds/definition.ts'
import { generatedFiles, outdatedFiles } from '../../crds/generate.ts'
import { RESOURCES } from '../../crds/resources.ts'

t.test('the committed CRDs and field reference are those of the schemas', async (t) => {
  t.strictSame(outdatedFiles(), [], 'run npm run generate')
})

t.test('the chart carries the seven CRDs', async (t) => {
  const files = generatedFiles()
  for (const resource of RESOURCES) {
    const crd = parse(files.get(`chart/crds/${resource.plural}.yaml`) ?? '') as {
      metadata: { annotations: Record<string, string> }
    }
    const version = crd.metadata.annotations['vec-operator.dev/version'] ?? ''
    t.match(version, /^\d+\.\d+\.\d+/)
    t.strictSame(crd, JSON.parse(JSON.stringify(definitionOf(resource, version))))
  }
})

t.test('the field reference names each kind with its fields, rules and columns', async (t) => {
  const text = generatedFiles().get('crds/README.md') ?? ''
  for (const { kind } of RESOURCES) t.match(text, `\n## ${kind}\n`)
  for (const line of [
    '| `replicas` | integer, 1 to 1000 | `1` | Number of nodes; more than 1 requires cluster.enabled. |',
    '| `persistence.size` | quantity | `10Gi` | Size of each data volume. Immutable. |',
    '| `vectors[].distance` | `Cosine`, `Euclid`, `Dot`, `Manhattan` | required |',
    '| `ttl` | duration |  |',
    '- spec.tls.enabled requires spec.tls.secretRef.name',
    'Print columns: SOURCE, TARGET, PHASE, PROGRESS, AGE.',
  ]) {
    t.ok(text.includes(line), line)
  }
})
