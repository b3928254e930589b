/**
 * "Without the internet" in docs/operations.md: its table has every image and chart that is downloaded, its values exist, and its
 * example sets all of them.
 */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { openApiSchema, RESOURCES } from '../../crds/crd.ts'
import { newJob } from '../../hooks/job.ts'
import { parseOptions } from '../../metacontroller/options.ts'
import { CASES } from '../chart/cases.ts'
import { imagesIn } from '../chart/objects.ts'
import { METACONTROLLER_IMAGE } from '../chart/requirements.ts'
import { commandsIn, ROOT } from './pages.ts'

const text = (path: string) => readFileSync(ROOT + path, 'utf8')

/** Of the engine's chart, whose objects are recorded. */
const RECORDED_VERSION = '1.18.3'

const SECTION = sectionOf(text('docs/operations.md'))
const values = parse(text('chart/values.yaml')) as Record<string, unknown>
const { version } = parse(text('chart/Chart.yaml')) as { version: string }
const cluster = RESOURCES.find(({ kind }) => kind === 'VecCluster')

t.test('the table has every image that the charts and the Jobs use, and no other', async (t) => {
  const used = {
    operator: [...imagesIn(goldenObjects()), ...jobImages()],
    engine: recordedEngineImages(),
    metacontroller: [`${METACONTROLLER_IMAGE}:v${metacontrollerVersion()}`],
  }
  for (const images of Object.values(used)) t.not(images.length, 0)
  t.strictSame(documentedImages(SECTION), sorted(Object.values(used).flat()))
})

t.test('every pod of the chart has the image of the operator', async (t) => {
  const lines = globSync('chart/templates/**', { cwd: ROOT, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .flatMap(({ name }) => text(`chart/templates/${name}`).split('\n'))
  const images = lines.flatMap((line) => /^\s*(?:- )?image: (.*)$/.exec(line)?.[1] ?? [])
  t.ok(images.length >= goldenObjects().filter((object) => imagesIn(object).length > 0).length)
  for (const image of images)
    t.match(image, /^[{]{2} include "vec-operator.image" [.\w]+ [|] quote /)
})

t.test('the table has the charts that are downloaded', async (t) => {
  const { name, repository } = values['engineChart'] as Record<string, string>
  const [, address = ''] =
    /helm upgrade --install metacontroller (\S+)/.exec(text('chart/files/metacontroller.yaml')) ??
    []
  t.strictSame(
    rowsOf(SECTION)
      .filter(([what = '']) => what.startsWith('chart of '))
      .flatMap(([, from = '']) => codesIn(from)),
    [repository, name, address],
  )
})

t.test('every value and field in the section exists', async (t) => {
  const names = codesIn(SECTION).filter((code) => /^[a-z][a-zA-Z]*([.][a-zA-Z]+)+$/.test(code))
  const [fields, others] = [
    names.filter((name) => name.startsWith('spec.')),
    names.filter((name) => !name.startsWith('spec.') && name !== 'index.yaml'),
  ]
  for (const name of others) t.not(valueAt(values, name), undefined, name)
  t.ok(fields.length > 2 && others.length > 4)
  for (const name of fields) t.ok(hasField(name), name)
  t.notOk(hasField('spec.image.mirror'))
  t.equal(valueAt(values, 'engineChart.mirror'), undefined)
})

t.test('the section names every value of the engine chart and of pull Secrets', async (t) => {
  const names = Object.keys(values['engineChart'] as object).map((name) => `engineChart.${name}`)
  const all = [...names, 'image.repository', 'spec.image.repository', 'spec.imagePullSecrets']
  const named = new Set(codesIn(SECTION))
  t.strictSame(
    all.filter((name) => !named.has(name)),
    [],
  )
  t.match(SECTION, "--set 'imagePullSecrets[0].name=")
})

t.test('the example leaves no download at its default', async (t) => {
  const { set, object } = exampleOf(SECTION)
  for (const name of ['image.repository', 'engineChart.repository']) {
    const mirror = set.get(name) ?? ''
    t.match(mirror, 'example.com', name)
    t.not(mirror, valueAt(values, name))
  }
  const { image, imagePullSecrets } = object.spec
  t.match(image.repository, 'example.com')
  t.not(imagePullSecrets.length, 0)
})

t.test('the examples create the Secrets that they name', async (t) => {
  const commands = commandsIn(SECTION)
  const named = commands.flatMap((words) =>
    words.flatMap((word) => /^engineChart[.]\w+Secret=(.+)$/.exec(word)?.[1] ?? []),
  )
  const created = commands
    .filter(([program, verb, kind]) => [program, verb, kind].join(' ') === 'kubectl create secret')
    .map(([, , , , name]) => name)
  t.equal(named.length, 2, 'one for each way to reach the chart')
  t.strictSame(created.toSorted(), named.toSorted())
})

t.test('a row that is missing or of another image is found', async (t) => {
  const rows = SECTION.split('\n').filter((line) => /^[|] (image of|the same)/.test(line))
  t.equal(rows.length, 4)
  const complete = documentedImages(SECTION)
  for (const row of rows) {
    t.strictNotSame(documentedImages(SECTION.replace(`${row}\n`, '')), complete)
    const [first = ''] = codesIn(row).filter((code) => code.includes('/'))
    t.strictNotSame(documentedImages(SECTION.replace(first, `x/${first}`)), complete)
  }
})

function sectionOf(page: string): string {
  const [, rest = ''] = page.split('\n## Without the internet\n')
  return rest.split('\n## ')[0] ?? ''
}

/** The cells of the table, without its head. */
function rowsOf(section: string): string[][] {
  const lines = section.split('\n').filter((line) => line.startsWith('|'))
  return lines.slice(2).map((line) =>
    line
      .split('|')
      .map((cell) => cell.trim())
      .slice(1, -1),
  )
}

function codesIn(markdown: string): string[] {
  return [...markdown.matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)
}

/** With the versions that the examples and recordings have. */
function documentedImages(section: string): string[] {
  const images = rowsOf(section)
    .filter(([what = '']) => !what.startsWith('chart of '))
    .flatMap(([, from = '']) => codesIn(from))
  return sorted(
    images.map((image) =>
      image.replace('<chart version>', version).replace('<spec.version>', RECORDED_VERSION),
    ),
  )
}

function sorted(names: string[]): string[] {
  return [...new Set(names)].sort()
}

/** What our chart renders, as test/chart/helm.test.ts holds it to the templates. */
function goldenObjects(): unknown[] {
  return globSync('test/chart/golden/*.yaml', { cwd: ROOT }).flatMap((path) =>
    parseAllDocuments(text(path)).map((document) => document.toJS() as unknown),
  )
}

/** Of both kinds of Jobs, with what the service does by default. */
function jobImages(): string[] {
  const settings = parseOptions(['--insecure-hooks'], {}, version)?.settings
  if (settings === undefined) return []
  const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
  const resources = { requests: {}, limits: {} }
  const options = { plan, resources, largeField: 'spec', serviceAccount: 'sa', credentials: {} }
  return [{ release: 'vec-a', chart: settings.chart }, {}].flatMap((more) =>
    imagesIn(newJob({ kind: 'cluster', verb: 'upgrade', ...options, ...more }, settings)),
  )
}

/** What the engine's chart rendered for every VecCluster whose spec does not name another image. */
function recordedEngineImages(): string[] {
  const renderings = JSON.parse(text(`test/chart/recorded/${RECORDED_VERSION}.json`)) as Record<
    string,
    unknown
  >
  const repository = valueAt(openApi(), 'properties.image.properties.repository.default')
  const isDefault = ({ spec }: (typeof CASES)[number]) =>
    spec.image === undefined || spec.image.repository === repository
  return CASES.filter(isDefault).flatMap(({ name }) => imagesIn(renderings[name]))
}

function metacontrollerVersion(): string {
  const helpers = text('chart/templates/_metacontroller.tpl')
  const [, found = ''] =
    /define "vec-operator.metacontrollerVersion" -}}([\d.]+)/.exec(helpers) ?? []
  return found
}

function valueAt(from: unknown, path: string): unknown {
  let value = from
  for (const key of path.split('.')) value = (value as Record<string, unknown> | undefined)?.[key]
  return value
}

/** The schema of the spec of a VecCluster, as in its CRD. */
function openApi(): unknown {
  return cluster && valueAt(openApiSchema(cluster), 'properties.spec')
}

function hasField(name: string): boolean {
  const path = name.replace(/^spec[.]/, '').replaceAll('.', '.properties.')
  return valueAt(openApi(), `properties.${path}`) !== undefined
}

interface ExampleCluster {
  spec: { image: { repository: string }; imagePullSecrets: object[] }
}

/** The values that the first command sets, and the VecCluster. */
function exampleOf(section: string): { set: Map<string, string>; object: ExampleCluster } {
  const [, commands = ''] = /```sh\n([^`]*)```/.exec(section) ?? []
  const [helm = []] = commandsIn(commands)
  const settings = helm.filter((_, index) => helm[index - 1] === '--set')
  const [, manifest = ''] = /```yaml\n([^`]*)```/.exec(section) ?? []
  return {
    set: new Map(settings.map((setting) => setting.split('=') as [string, string])),
    object: parse(manifest) as ExampleCluster,
  }
}
