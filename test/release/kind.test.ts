/**
 * The workflow of kind and its script. Here kind and the registries are stand-ins that record how they are
 * called: what is checked is which commands run, in which order, and that a failure of one of them is one of
 * the script. The workflow itself runs on GitHub only.
 */
import { execFile } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parse } from 'yaml'

const ROOT = join(import.meta.dirname, '../..')
const PROGRAMS = ['kind', 'kubectl', 'docker', 'helm', 'curl', 'npx', 'npm']
const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')

interface Entry {
  runner: string
  kubernetes: string
  node: string
  before: string
  engine: string
  suite: boolean
}

t.test(
  'the matrix has the engines 1.16 to 1.19, both ends of Kubernetes and both platforms',
  async (t) => {
    const { jobs } = parse(text('.github/workflows/kind.yaml')) as {
      jobs: { kind: { strategy: { matrix: { include: Entry[] } } } }
    }
    const entries = jobs.kind.strategy.matrix.include
    const minors = (of: (entry: Entry) => string) =>
      [...new Set(entries.map((entry) => of(entry).split('.').slice(0, 2).join('.')))].toSorted()
    t.strictSame(
      minors(({ engine }) => engine),
      ['1.16', '1.17', '1.18', '1.19'],
    )
    t.strictSame([...new Set(entries.map(({ runner }) => runner))].toSorted(), [
      'ubuntu-24.04',
      'ubuntu-24.04-arm',
    ])
    const [, oldest] = /^kubeVersion: \W*>= ?(\d+\.\d+)/m.exec(text('chart/Chart.yaml')) ?? []
    t.equal(
      minors(({ kubernetes }) => kubernetes)[0],
      `v${oldest ?? ''}`,
      'the oldest of the chart',
    )
    for (const { node, kubernetes, before, engine } of entries) {
      t.match(node, new RegExp(`^kindest/node:${kubernetes}@sha256:[0-9a-f]{64}$`))
      const [from, to] = [before, engine].map((version) => Number(version.split('.')[1]))
      t.ok(from !== undefined && to !== undefined && to - from <= 1, `${before} -> ${engine}`)
    }
  },
)

interface Behaviour {
  /** A call that begins so ends with 1. */
  failing?: string
  count?: number
  engine?: string
}

/** Runs `.ci/kind` in a copy of the files that it reads; returns the calls of the stand-ins. */
async function run(
  t: Test,
  verb: string,
  { failing = 'none', count = 2, engine = '1.18.3' }: Behaviour = {},
) {
  const root = t.testdir({ bin: {}, '.ci': {}, docs: {} })
  mkdirSync(join(root, 'chart'))
  for (const path of ['.ci/kind', 'docs/quickstart.md', 'docs/quickstart', 'docs/samples']) {
    cpSync(join(ROOT, path), join(root, path), { recursive: true })
  }
  const log = join(root, 'calls')
  writeFileSync(log, '')
  mkdirSync(join(root, 'tmp'))
  const standIn = `#!/bin/bash
call="\${0##*/} $*"
settings=
[ "$call" = 'npm run --silent test:cluster' ] &&
  settings=" $IMAGE $ENGINE_OLDER $ENGINE_NEWER $S3_ENDPOINT $S3_ACCESS_KEY_ID $S3_SECRET_ACCESS_KEY"
echo "$call$settings" >>'${log}'
case $call in
'kubectl config current-context') echo kind-kind ;;
'${failing}'*) exit 1 ;;
'docker network inspect'*) printf 'fc00:f853::1\\n172.18.0.1\\n' ;;
'curl'*/points/count*) echo '{"result":{"count":${count}}}' ;;
esac
`
  for (const program of PROGRAMS) {
    writeFileSync(join(root, 'bin', program), standIn)
    chmodSync(join(root, 'bin', program), 0o755)
  }
  const env = {
    PATH: `${join(root, 'bin')}:${process.env['PATH'] ?? ''}`,
    TMPDIR: join(root, 'tmp'),
    ...{ NODE_IMAGE: 'kindest/node:v1.37.0', ENGINE_BEFORE: '1.18.2', ENGINE: engine },
  }
  const ended = await promisify(execFile)(join(root, '.ci/kind'), [verb], { env }).then(
    () => 0,
    (error: unknown) => (error as { code: number }).code,
  )
  const calls = readFileSync(log, 'utf8').split('\n').filter(Boolean)
  return {
    code: ended,
    calls,
    sample: readFileSync(join(root, 'docs/samples/cluster.yaml'), 'utf8'),
  }
}

t.test('up creates the cluster', async (t) => {
  const { code, calls } = await run(t, 'up')
  t.equal(code, 0)
  t.strictSame(calls, ['kind create cluster --image kindest/node:v1.37.0 --wait 180s'])
  t.not((await run(t, 'up', { failing: 'kind create' })).code, 0)
})

t.test('the quickstart installs the built image and a Metacontroller of few rights', async (t) => {
  const { calls } = await run(t, 'quickstart')
  const [metacontroller = '', operator = ''] = calls.filter((call) =>
    call.startsWith('helm upgrade'),
  )
  const [, version = ''] =
    /metacontrollerVersion" -}}([\d.]+)/.exec(text('chart/templates/_metacontroller.tpl')) ?? []
  t.match(metacontroller, `--version ${version} --namespace metacontroller`)
  t.match(metacontroller, '--values chart/files/metacontroller.yaml')
  const values = parse(text('chart/files/metacontroller.yaml')) as { rbac: { create: boolean } }
  t.equal(values.rbac.create, false)
  t.match(operator, '--set image.repository=vec-operator --set-string image.tag=dev')
  t.match(operator, '--set metacontroller.rbac.create=true')
  t.ok(calls.includes('kind load docker-image vec-operator:dev --name kind'))
  t.ok(calls.includes('docker build --tag vec-operator:dev .'))
})

t.test('quickstart runs the commands of the page in their order', async (t) => {
  const { code, calls, sample } = await run(t, 'quickstart', { engine: '1.17.1' })
  t.equal(code, 0)
  const marks = [
    ...['docker build', 'helm upgrade --install metacontroller'],
    ...['helm upgrade --install vec-operator', 'kubectl rollout status statefulset/metacontroller'],
    ...['kubectl apply -f docs/quickstart/s3.yaml -f docs/samples/cluster.yaml', 'curl --fail'],
    'kubectl apply -f docs/quickstart/backup.yaml',
    ...['kubectl delete qcol books', 'kubectl apply -f docs/quickstart/restore.yaml'],
    ...[
      'kubectl wait --for=condition=Complete qr/first-restore',
      'npx --no -- vec-operator doctor',
    ],
    ...['npx --no -- vec-operator backup verify', 'helm uninstall vec-operator'],
  ]
  const positions = marks.map((mark) => calls.findIndex((call) => call.startsWith(mark)))
  t.notOk(positions.includes(-1), marks[positions.indexOf(-1)] ?? 'all of them ran')
  t.strictSame(
    positions,
    positions.toSorted((one, other) => one - other),
  )
  t.notOk(calls.some((call) => call.startsWith('kind create') || call.startsWith('kind delete')))
  t.match(sample, /^ {2}version: 1\.17\.1$/m)
  t.match(sample, /^ {2}replicas: 3$/m)
})

t.test('before engine 1.17.1 the quickstart has one node', async (t) => {
  const { code, sample } = await run(t, 'quickstart', { engine: '1.16.3' })
  t.equal(code, 0)
  t.match(sample, /^ {2}version: 1\.16\.3$/m)
  t.match(sample, /^ {2}replicas: 1$/m)
})

t.test('the quickstart fails with each of its commands, and when points are missing', async (t) => {
  const waits = [
    'kubectl wait --for=condition=Complete qb',
    'npx --no -- vec-operator backup verify',
  ]
  for (const failing of [...waits, 'kubectl wait --for=condition=Complete qr', 'curl --fail']) {
    const { code, calls } = await run(t, 'quickstart', { failing })
    t.not(code, 0, failing)
    t.match(
      calls.findLast((call) => !call.startsWith('kubectl port-forward')),
      failing,
    )
  }
  t.not((await run(t, 'quickstart', { count: 1 })).code, 0, 'one point was restored')
})

t.test('suite runs the cluster suite with a store that pods and the runner reach', async (t) => {
  const { code, calls } = await run(t, 'suite')
  t.equal(code, 0)
  const [, image] = /image: (\S+)/.exec(text('docs/quickstart/s3.yaml')) ?? []
  t.match(calls.at(-2), `${image ?? ''} --port :7071 posix /data`)
  t.equal(
    calls.at(-1),
    'npm run --silent test:cluster vec-operator:dev 1.18.2 1.18.3 http://172.18.0.1:7071 suite suite-secret',
  )
  t.not((await run(t, 'suite', { failing: 'npm run' })).code, 0)
})

t.test('down deletes the cluster and the store, and nothing else is a verb', async (t) => {
  t.strictSame((await run(t, 'down')).calls, [
    'docker rm --force vec-operator-s3',
    'kind delete cluster',
  ])
  const unknown = await run(t, 'destroy')
  t.equal(unknown.code, 2)
  t.strictSame(unknown.calls, [])
})
