/** The helm double of the embedded world renders what the real chart rendered when it was recorded. */
import { stringify } from 'yaml'
import t from 'tap'
import { CASES } from '../chart/cases.ts'
import { recordedCases, valuesFor, type Rendered } from '../chart/compare.ts'
import { checksumsOf, objectsOf } from '../chart/objects.ts'
import { renderChart } from '../doubles/chart-objects.ts'
import { ChartError } from '../doubles/chart-objects/values.ts'

const RELEASE = { release: 'vec-a', namespace: 'ns', version: '1.18.3' }

/** As a chart writes it: modes of files stand there in octal, which YAML 1.2 reads as decimal. */
function yamlOf(values: object): string {
  const documents = renderChart(values, RELEASE).map((object) =>
    stringify(object, { aliasDuplicateObjects: false }),
  )
  return documents
    .join('---\n')
    .replaceAll('defaultMode: 493', 'defaultMode: 0755')
    .replaceAll('defaultMode: 384', 'defaultMode: 0600')
}

const recorded = recordedCases()
const defaults = checksumsOf(yamlOf({ fullnameOverride: 'vec-a' }))
for (const known of CASES) {
  t.test(`the same objects for ${known.name}`, async (t) => {
    const yaml = yamlOf(valuesFor(known))
    const checksums = checksumsOf(yaml)
    const rolls = Object.keys(checksums).filter((key) => checksums[key] !== defaults[key])
    const rendered: Rendered = { objects: objectsOf(yaml), rolls: rolls.sort() }
    t.strictSame(rendered, recorded[known.name])
  })
}

t.test('a generated key is kept, and a key of another Secret is copied', async (t) => {
  const existing = { 'vec-a-apikey': { 'api-key': base64('kept') } }
  const keyOf = (values: object, secrets: Record<string, Record<string, string>>) => {
    const objects = renderChart({ fullnameOverride: 'vec-a', ...values }, { ...RELEASE, secrets })
    return objects.find(({ kind }) => kind === 'Secret')?.['data']
  }
  t.match(keyOf({ apiKey: true }, existing), {
    'api-key': base64('kept'),
    'local.yaml': base64('service:\n  api_key: kept'),
  })
  const valueFrom = { secretKeyRef: { name: 'own', key: 'k' } }
  const copied = keyOf({ apiKey: { valueFrom } }, { ...existing, own: { k: base64('mine') } })
  t.match(copied, { 'api-key': base64('mine') })
  t.strictSame(keyOf({ apiKey: { valueFrom } }, existing), {}, 'a missing Secret opens the engine')
  t.match(keyOf({ apiKey: 'literal' }, {}), { 'api-key': base64('literal') })
})

const REFUSED: [object, RegExp][] = [
  [{ config: { cluster: { p2p: 5 } } }, /can't evaluate field enable_tls in type interface/],
  [{ config: 5 }, /wrong type for value/],
  [{ config: { a: '{{ nope' } }, /error calling tpl: cannot parse template/],
  [{ image: { tag: 'latest' } }, /invalid semantic version/],
]
for (const [values, message] of REFUSED) {
  t.test(`values that the chart rejects: ${JSON.stringify(values)}`, async (t) => {
    t.throws(() => renderChart(values, RELEASE), { constructor: ChartError, message })
  })
}

t.test('without fullnameOverride the chart adds its own name', async (t) => {
  const nameIn = (release: string) =>
    renderChart({ image: { tag: null } }, { ...RELEASE, release })[0]?.metadata.name
  t.equal(nameIn('vec-a'), 'vec-a-qdrant')
  t.equal(nameIn('qdrant-a'), 'qdrant-a')
})

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
