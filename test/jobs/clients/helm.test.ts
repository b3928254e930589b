/** Calls of helm and the meaning of its output, with scripts on PATH in its place. */
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t, { type Test } from 'tap'
import { JOB_ENV } from '../../../crds/contract/job.ts'
import { mountedChartCredentials } from '../../../jobs/clients/chart-repository.ts'
import { Helm, upgradeArguments, type HelmOptions } from '../../../jobs/clients/helm.ts'
import { jobLog } from '../../../jobs/log.ts'
import { jobWorld } from '../job-world.ts'

const REQUEST = {
  release: 'vec-a',
  chart: 'qdrant',
  repository: 'https://charts.example/engine',
  version: '1.18.3',
  namespace: 'ns',
  values: { replicaCount: 3 },
}

/** A command that is a shell script. */
function helmOf(t: Test, script: string, options: HelmOptions = {}) {
  const folder = t.testdir({ helm: `#!/bin/sh\n${script}\n` })
  chmodSync(join(folder, 'helm'), 0o755)
  let log = ''
  const logger = jobLog({ LOG_LEVEL: 'DEBUG' }, { write: (line) => (log += line) })
  const env = { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}`, FOLDER: folder }
  return { helm: new Helm(logger, { env, ...options }), folder, log: () => log }
}

t.test('values are written to standard input and never to the log', async (t) => {
  const { helm, folder, log } = helmOf(t, 'cat > "$FOLDER/values"; echo "$@"')
  const said = await helm.upgrade({ ...REQUEST, values: { config: { key: 'hidden' } } })
  t.equal(said, upgradeArguments(REQUEST).join(' '))
  t.equal(readFileSync(join(folder, 'values'), 'utf8'), '{"config":{"key":"hidden"}}')
  t.match(log(), /helm upgrade --install vec-a qdrant/)
  t.notMatch(log(), /hidden/)
})

t.test('helm is not asked to create the namespace: it exists, and its Job may not', async (t) => {
  t.strictSame(upgradeArguments(REQUEST), [
    ...['upgrade', '--install', 'vec-a', 'qdrant', '--repo', 'https://charts.example/engine'],
    ...['--version', '1.18.3', '--namespace', 'ns', '--timeout', '600s', '--values', '-'],
  ])
})

t.test('a chart in an OCI registry is named by its whole address', async (t) => {
  for (const repository of [
    'oci://registry.example:5000/charts',
    'oci://registry.example:5000/charts/',
  ]) {
    t.strictSame(upgradeArguments({ ...REQUEST, repository }).slice(0, 6), [
      ...['upgrade', '--install', 'vec-a', 'oci://registry.example:5000/charts/qdrant'],
      ...['--version', '1.18.3'],
    ])
  }
})

t.test('the CA of the repository is a file for helm, and is removed afterwards', async (t) => {
  const { helm, folder } = helmOf(
    t,
    'while [ "$1" != --ca-file ]; do shift; done; echo "$2" > "$FOLDER/path"; cat "$2"',
    { chartCa: 'the certificate' },
  )
  t.equal(await helm.upgrade(REQUEST), 'the certificate')
  const path = readFileSync(join(folder, 'path'), 'utf8').trim()
  t.ok(path.endsWith('/ca.crt'))
  t.notOk(existsSync(path))
})

t.test(
  'credentials of the repository are in a file for helm alone, and nowhere else',
  async (t) => {
    const credentials = { username: 'robot', password: 'a"b: {c}' }
    const script = `
printf '%s\\n' "$*" >> "$FOLDER/arguments"
env >> "$FOLDER/environment"
stat -c '%a %n' "$HELM_REPOSITORY_CONFIG" "$(dirname "$HELM_REPOSITORY_CONFIG")" >> "$FOLDER/modes"
cat "$HELM_REPOSITORY_CONFIG" > "$FOLDER/repositories"
case "$1" in upgrade) cat > "$FOLDER/values";; esac
echo done`
    for (const chartCa of ['', 'the certificate']) {
      const { helm, folder, log } = helmOf(t, script, {
        ...{ chartCa, chartCredentials: () => credentials },
      })
      t.equal(await helm.upgrade(REQUEST), 'done')
      const written = (name: string) => readFileSync(join(folder, name), 'utf8')
      t.strictSame(written('arguments').trimEnd().split('\n'), [
        'repo update engine-charts',
        [
          ...['upgrade --install vec-a engine-charts/qdrant --version 1.18.3'],
          ...['--namespace ns --timeout 600s --values -'],
        ].join(' '),
      ])
      t.equal(written('values'), '{"replicaCount":3}')
      const { repositories } = JSON.parse(written('repositories')) as { repositories: object[] }
      const [, config = ''] = /^HELM_REPOSITORY_CONFIG=(.*)$/m.exec(written('environment')) ?? []
      const caFile = join(dirname(config), 'ca.crt')
      t.strictSame(repositories, [
        {
          ...{ name: 'engine-charts', url: REQUEST.repository, ...credentials },
          ...(chartCa !== '' && { caFile }),
        },
      ])
      t.strictSame(
        written('modes').split('\n').slice(0, 2),
        [`600 ${config}`, `700 ${dirname(config)}`],
        'no other user may read it',
      )
      for (const text of [written('arguments'), written('environment'), log()])
        for (const hidden of Object.values(credentials)) t.notOk(text.includes(hidden), text)
      t.notOk(existsSync(dirname(config)))
    }
  },
)

t.test('an index that helm cannot read is an error although helm succeeds', async (t) => {
  const script = `
case "$1" in upgrade) touch "$FOLDER/upgraded";; esac
cat <<'END'
Hang tight while we grab the latest from your chart repositories...
...Unable to get an update from the "engine-charts" chart repository (https://user:pass@charts.example/engine):
	failed to fetch https://user:pass@charts.example/engine/index.yaml : 403 Forbidden
Update Complete. ⎈Happy Helming!⎈
END`
  const chartCredentials = () => ({ username: 'robot', password: 'secret' })
  const { helm, folder } = helmOf(t, script, { chartCredentials })
  const repository = 'https://user:pass@charts.example/engine'
  await t.rejects(helm.upgrade({ ...REQUEST, repository }), {
    code: 'HelmError',
    message:
      'cannot read the index of the chart repository https://***@charts.example/engine: failed to fetch https://***@charts.example/engine/index.yaml : 403 Forbidden',
  })
  t.notOk(existsSync(join(folder, 'upgraded')))
})

t.test('the files for helm are removed also after an error', async (t) => {
  const script = 'echo "$HELM_REPOSITORY_CONFIG" > "$FOLDER/path"; [ "$1" = repo ]'
  const chartCredentials = () => ({ username: 'robot', password: 'secret' })
  const { helm, folder } = helmOf(t, script, { chartCredentials })
  await t.rejects(helm.upgrade(REQUEST), { message: 'helm ended with code 1' })
  const path = readFileSync(join(folder, 'path'), 'utf8').trim()
  t.ok(path.endsWith('/repositories.yaml'), path)
  t.notOk(existsSync(dirname(path)))
})

t.test('the image by digest is an argument of the post-renderer', async (t) => {
  const request = { ...REQUEST, image: 'a/b@sha256:0', isAdjusted: true }
  const flags = upgradeArguments(request, ['node', 'main.js'])
  t.strictSame(flags.slice(flags.indexOf('--post-renderer'), -2), [
    ...['--post-renderer', 'node', '--post-renderer-args', 'main.js'],
    ...['--post-renderer-args', 'vec-a', '--post-renderer-args', 'image=a/b@sha256:0'],
  ])
})

t.test('the post-renderer gets what is to be changed, and runs only then', async (t) => {
  const argumentsOf = (request: object) => {
    const flags = upgradeArguments({ ...REQUEST, ...request }, ['node'])
    return flags.filter((_, at) => flags[at - 1] === '--post-renderer-args')
  }
  t.strictSame(argumentsOf({}), [])
  t.strictSame(argumentsOf({ isAdjusted: true }), ['vec-a'])
  t.strictSame(argumentsOf({ partition: 0 }), ['vec-a', 'partition=0'])
  t.strictSame(argumentsOf({ partition: 2, secretChecksum: 'sum' }), [
    ...['vec-a', 'partition=2', 'secret-checksum=sum'],
  ])
  t.strictSame(argumentsOf({ gracePeriod: 120, isAdjusted: true }), ['vec-a', 'grace-period=120'])
})

t.test('the notes of the chart are left out, and only those', async (t) => {
  const script = 'printf "STATUS: deployed\\nNOTES: 1 of 2\\nNOTES:\\nuse port-forward\\n"'
  t.equal(await helmOf(t, script).helm.upgrade(REQUEST), 'STATUS: deployed\nNOTES: 1 of 2')
})

t.test('credentials of the repository are mounted, and both are needed', async (t) => {
  t.equal(mountedChartCredentials({}), undefined, 'a repository without credentials')
  const folder = t.testdir({ chart: { username: 'robot\r\n', password: ' with spaces \n' } })
  const env = { VEC_CREDENTIALS: folder, [JOB_ENV.chartCredentials]: 'chart' }
  const read = mountedChartCredentials(env)
  t.strictSame(read?.(), { username: 'robot', password: ' with spaces ' })
  for (const content of ['', '\n', undefined]) {
    const file = join(folder, 'chart/password')
    if (content === undefined) rmSync(file)
    else writeFileSync(file, content)
    t.throws(() => read?.(), {
      code: 'HelmError',
      message: /credentialsSecret names has no password: set its keys username and password$/,
    })
  }
})

t.test('TLS of the ServiceMonitor is an argument of the post-renderer', async (t) => {
  const monitorTls = { serverName: 'vec-a.ns.svc.cluster.local' }
  const flags = upgradeArguments({ ...REQUEST, monitorTls, isAdjusted: true }, ['node'])
  t.ok(flags.includes('monitor-tls={"serverName":"vec-a.ns.svc.cluster.local"}'), flags.join(' '))
})

t.test("an error has helm's message without warnings, repetitions and configuration", async (t) => {
  const { helm } = helmOf(
    t,
    `cat >&2 <<'END'
coalesce.go:316: warning: cannot overwrite table
WARNING: Kubernetes configuration file is group-readable
Error: UPGRADE FAILED: template: x: error calling tpl: cannot parse template "a: '{{ hidden'\\ncluster:\\n  \\"b\\"": bad character
Error: UPGRADE FAILED: template: x: error calling tpl: cannot parse template "a: '{{ hidden'\\ncluster:\\n  \\"b\\"": bad character

Use --debug flag to render out invalid YAML
END
exit 1`,
  )
  await t.rejects(helm.upgrade(REQUEST), {
    code: 'HelmError',
    message:
      /^UPGRADE FAILED: template: x: error calling tpl: cannot parse template "…": bad character$/,
  })
})

t.test('an error without output has the exit code', async (t) => {
  await t.rejects(helmOf(t, 'exit 3').helm.upgrade(REQUEST), { message: 'helm ended with code 3' })
})

t.test('an endless error is truncated', async (t) => {
  const script = 'i=0; while [ $i -lt 600 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1'
  const error: unknown = await helmOf(t, script)
    .helm.upgrade(REQUEST)
    .catch((error: unknown) => error)
  t.match(error, { message: /^line 0\n.* …$/s })
  t.ok((error as Error).message.length <= 2048)
})

t.test('a missing helm program is named', async (t) => {
  const { helm } = helmOf(t, '', { command: 'no-such-helm' })
  await t.rejects(helm.upgrade(REQUEST), {
    code: 'HelmError',
    message: /^no-such-helm cannot be started: .*ENOENT/,
  })
})

t.test('a helm process that does not end gets SIGTERM, then SIGKILL', async (t) => {
  const script = 'trap "" TERM; while :; do sleep 0.05; done'
  const { helm } = helmOf(t, script, { limitMs: 50, graceMs: 50 })
  await t.rejects(helm.upgrade(REQUEST), {
    code: 'HelmError',
    message: 'helm upgrade did not end within 0.05 s',
  })
})

t.test('an abort is forwarded, and is not a Helm error', async (t) => {
  const { helm, folder } = helmOf(
    t,
    'trap "touch $FOLDER/ended; exit 1" TERM; touch "$FOLDER/ready"; while :; do sleep 0.02; done',
  )
  const controller = new AbortController()
  const upgrade = helm.upgrade(REQUEST, controller.signal)
  while (!existsSync(join(folder, 'ready'))) await new Promise(setImmediate)
  controller.abort(new Error('SIGTERM'))
  await t.rejects(upgrade, { message: /^SIGTERM$/ })
  t.ok(existsSync(join(folder, 'ended')), 'helm could clean up')
  await t.rejects(helm.upgrade(REQUEST, controller.signal), { message: /^SIGTERM$/ })
})

t.test('the status of a release is its status and revision, or undefined', async (t) => {
  const world = await jobWorld(t)
  const helm = new Helm(jobLog({ LOG_LEVEL: 'ERROR' }), { env: world.env })
  t.equal(await helm.status('vec-a', 'ns'), undefined)
  await helm.upgrade({ ...REQUEST, values: { fullnameOverride: 'vec-a' } })
  t.match(await helm.status('vec-a', 'ns'), { version: 1, info: { status: 'deployed' } })
  await t.rejects(helm.status('vec-a', '--nonsense'), { code: 'HelmError' })
  await t.rejects(helm.uninstall('--nonsense', 'ns'), { code: 'HelmError' })
})
