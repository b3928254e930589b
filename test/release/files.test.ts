/** The files of a release that need no other program: CRDs, the npm package of the CLI, and the release page. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse, parseAllDocuments } from 'yaml'
// @ts-expect-error: a script without types
import { notesOf as untypedNotes } from '../../.ci/release.js'
import { RESOURCES } from '../../crds/crd.ts'
import { matchWhole } from '../match-whole.ts'

const ROOT = join(import.meta.dirname, '../..')
const run = promisify(execFile)
const notesOf = untypedNotes as (subjects: string[], before: string) => string
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  version: string
}

t.test('the CRDs are one file with seven definitions', async (t) => {
  const out = t.testdir({})
  await release('crds', '--out', out)
  const documents = parseAllDocuments(readFileSync(join(out, 'vec-operator-crds.yaml'), 'utf8'))
  const found = documents.map((document) => (document.toJS() as { spec: Names }).spec.names.kind)
  t.strictSame(found.toSorted(), RESOURCES.map(({ kind }) => kind).toSorted())
})

t.test('the npm package of the CLI installs without a registry and runs', async (t) => {
  const out = t.testdir({ files: {}, prefix: {} })
  await release('cli', '--out', join(out, 'files'))
  const [file = ''] = readdirSync(join(out, 'files'))
  t.equal(file, `vec-operator-cli-${version}.tgz`)
  const flags = ['--global', '--offline', '--no-audit', '--prefix', join(out, 'prefix')]
  await run('npm', ['install', ...flags, join(out, 'files', file)])
  for (const name of ['vec-operator', 'kubectl-vec_operator']) {
    const { stdout } = await run(join(out, 'prefix/bin', name), ['--version'], { cwd: out })
    t.equal(stdout, `vec-operator ${version}\n`, name)
  }
  const folder = join(out, 'prefix/lib/node_modules/@vec-operator/cli')
  const licences = readFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), 'utf8')
  for (const name of ['undici', '@aws-sdk/client-s3', '@kubernetes/client-node', 'pino']) {
    t.match(licences, new RegExp(`^${name} [\\d.]+ \\((MIT|Apache-2\\.0)\\)$`, 'm'), name)
  }
  t.notMatch(licences, /^tap /m, 'no tool of development is in it')
})

t.test(
  'the release page has what is new, fixed, faster or changed, and nothing else',
  async (t) => {
    const subjects = [
      'feat(cluster): volumes grow',
      'fix(backup): a lost object is noticed',
      'docs(faq): shards',
      'feat(crds)!: replicas is required',
      'perf(restore): two streams',
      'Merge branch x',
    ]
    t.equal(
      notesOf(subjects, 'v0.1.0'),
      `Since v0.1.0.

## Changed: read before you upgrade

- **crds**: replicas is required

## New

- **cluster**: volumes grow

## Fixed

- **backup**: a lost object is noticed

## Faster

- **restore**: two streams
`,
    )
  },
)

t.test(
  'a program for a platform without Node is refused, and so is an index without it',
  async (t) => {
    const out = t.testdir({})
    const binary = ['binary', '--out', out, '--platform']
    await t.rejects(release(...binary, 'plan9-amd64'), /--platform is one of linux-amd64, /)
    await t.rejects(release(...binary, 'darwin-arm64'), /--node: there is no npm package/)
    await t.rejects(release('index', '--out', out), /no archive for linux-amd64, /)
    t.strictSame(readdirSync(out), [])
  },
)

t.test('the chart lists its CRDs and its image for Artifact Hub', async (t) => {
  const chart = parse(readFileSync(join(ROOT, 'chart/Chart.yaml'), 'utf8')) as {
    appVersion: string
    annotations: Record<string, string>
  }
  const listed = (name: string) =>
    parse(chart.annotations[`artifacthub.io/${name}`] ?? '') as object[]
  const names = RESOURCES.map(({ kind, plural }) => ({
    ...{ kind, version: 'v1alpha1', name: `${plural}.vec-operator.dev`, displayName: kind },
    description: String,
  }))
  t.match(listed('crds'), names)
  t.equal(listed('crds').length, names.length)
  matchWhole(t, listed('images'), [
    { image: `ghcr.io/vec-operator/vec-operator:${chart.appVersion}` },
  ])
  t.equal(chart.appVersion, version)
})

interface Names {
  names: { kind: string }
}

async function release(...args: string[]): Promise<unknown> {
  return run('node', [join(ROOT, '.ci/release.js'), ...args])
}
