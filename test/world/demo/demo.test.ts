/** `npm run demo` without a terminal, as a process; and what its table shows. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import t, { type Test } from 'tap'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { NOW, ago, cluster, helmJob, progress } from '../../builders.ts'
import { rowOf } from './rows.ts'
import { ageOf, draw } from './screen.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'

const DEMO = new URL('../demo.ts', import.meta.url).pathname

/** Where it may leave something behind is a folder of its own. */
function start(t: Test, args: string[] = []) {
  const folder = t.testdir({ temporary: {}, samples: { 'cluster.yaml': REFUSED } })
  const child = spawn(process.execPath, [DEMO, ...args.map((arg) => arg.replace('DIR', folder))], {
    env: { ...process.env, TMPDIR: `${folder}/temporary` },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  }
  const ended = once(child, 'close').then(([code]) => ({
    code: code as number | null,
    output,
    left: readdirSync(`${folder}/temporary`),
  }))
  return { child, ended, output: () => output }
}

const REFUSED = `
apiVersion: vec-operator.dev/v1alpha1
kind: VecCluster
metadata: { name: docs }
spec: { version: 1.18.2, replicas: 2, cluster: { enabled: false } }
`

/** The phases the lines show of a resource, one after the other. */
function phasesIn(output: string, resource: string): (string | undefined)[] {
  const lines = output.matchAll(new RegExp(`^[\\d:]+ +${resource} +(\\w+)`, 'gm'))
  const phases = [...lines].map(([, phase]) => phase)
  return phases.filter((phase, index) => phase !== phases[index - 1])
}

t.test('the tour shows the life of every kind, and ends with the lost data back', async (t) => {
  const { code, output, left } = await start(t, ['--logs']).ended
  t.equal(code, 0, output)
  t.strictSame(phasesIn(output, 'VecCluster \\S+'), [
    'Pending',
    'Running',
    'Upgrading',
    'Running',
    'gone',
  ])
  t.strictSame(phasesIn(output, 'VecBackup demo-1/docs-before-upgrade'), [
    'Pending',
    'InProgress',
    'Completed',
    'gone',
  ])
  t.match(output, /Restoring +collection 1 of 1 \(books\), \d of 3 shards done: /)
  t.match(output, /VecBackup demo-1\/docs-nightly-\d{8}-\d{4}00 +Completed +Backed up 2\/2/)
  t.strictSame(phasesIn(output, 'VecBackupSchedule \\S+'), ['Active', 'gone'])
  for (const kind of ['VecRestore', 'VecMigration']) {
    const phases = phasesIn(output, `${kind} \\S+`)
    t.match(phases, { 0: 'Pending', [phases.length - 2]: 'Completed', [phases.length - 1]: 'gone' })
  }
  const findings = [...output.matchAll(/^=> (.*)$/gm)].map(([, finding = '']) =>
    finding.replace(/compared whole from \S+Z to \S+Z \(\d+ MB in \d+ s\)/, 'compared whole'),
  )
  t.strictSame(findings, [
    'the engine has the index author',
    'books has 60 points',
    'by-hand/docs-before-upgrade/manifest.json',
    'the engine has no collection and no point',
    'library has 60 points again, by its alias',
    'books-copy has 60 points: 60 points on both sides, each equal; compared whole',
    'books has 60 points, books-copy has 60 points',
    'the bucket is empty',
  ])
  for (const command of ['apply -f docs/samples/cluster.yaml', 'edit', 'delete']) {
    t.match(output, `$ kubectl -n demo-1 ${command}`)
  }
  t.equal(
    [...output.matchAll(/log of Job docs-upgrade-[0-9a-f]{5}-1:\n +\| .*upgrade started/g)].length,
    1,
  )
  t.strictSame(left, [])
})

t.test('a tour that fails ends with the reason and leaves nothing behind', async (t) => {
  const { code, output, left } = await start(t, ['--samples', 'DIR/samples']).ended
  t.equal(code, 1)
  t.match(output, /demo: .*spec\.replicas greater than 1 requires spec\.cluster\.enabled/)
  t.strictSame(left, [])
})

t.test('an interrupted tour leaves no process and no file behind', async (t) => {
  const { child, ended, output } = start(t)
  while (!/Job .* Running/.test(output())) await once(child.stdout, 'data')
  child.kill('SIGINT')
  const { code, left } = await ended
  t.equal(code, 130)
  t.strictSame(left, [])
})

t.test('a resource shows its phase and what it waits for', async (t) => {
  const condition = (type: string, status: 'True' | 'False', message: string) => ({
    ...{ type, status, message, reason: 'R', lastTransitionTime: ago(5) },
  })
  const conditions = [
    condition('Applied', 'False', 'helm run 1 is in progress'),
    condition('Ready', 'False', '0/1 replicas ready'),
  ]
  t.match(rowOf(cluster({ status: { phase: 'Pending', conditions } })), {
    ...{ kind: 'VecCluster', name: 'ns/a', phase: 'Pending' },
    message: 'helm run 1 is in progress; 0/1 replicas ready',
  })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(progress({ verb: 'uninstall' })) }
  t.match(rowOf(cluster({ deletionTimestamp: ago(1), annotations })), {
    ...{ phase: '-', message: 'being deleted; helm uninstall 1 Done' },
  })
  t.equal(rowOf(cluster({ deletionTimestamp: ago(1) })).message, 'being deleted')
})

t.test('a Job is Pending, Running, then what it ended as', async (t) => {
  const withStatus = (status: object) => ({ ...helmJob(), status }) as AnyObject
  t.equal(rowOf(withStatus({})).phase, 'Pending')
  t.equal(rowOf(withStatus({ active: 1 })).phase, 'Running')
  const about = { status: 'True', message: 'BackoffLimitExceeded' }
  t.equal(rowOf(withStatus({ conditions: [{ type: 'FailureTarget', ...about }] })).phase, 'Ending')
  t.equal(rowOf(helmJob({ ended: ['Complete', 5] })).phase, 'Complete')
  t.match(rowOf(withStatus({ conditions: [{ type: 'Failed', ...about }] })), {
    ...{ phase: 'Failed', message: 'BackoffLimitExceeded' },
  })
})

t.test('the table fits the terminal and shows the end of the log', async (t) => {
  const row = (name: string) => ({
    ...{ kind: 'Pod', name: `ns/${name}`, phase: 'Running', message: 'ready' },
    createdAt: NOW.getTime() - 125_000,
  })
  const log = Array.from({ length: 50 }, (_, line) => `line ${line}`)
  const view = { head: ['title'], rows: [row('a'), row('b')], selected: 1, log, foot: 'keys' }
  const lines = draw({ ...view, now: NOW }, 30, 12)
  t.equal(lines.length, 12)
  t.strictSame(lines.slice(0, 5), [
    'title',
    '',
    '  KIND  NAME  PHASE    AGE   M',
    '  Pod   ns/a  Running  2m5s  r',
    '> Pod   ns/b  Running  2m5s  r',
  ])
  t.strictSame(lines.slice(-3), ['line 48', 'line 49', 'keys'])
})

t.test('ages are as short as those of kubectl', async (t) => {
  t.strictSame([-1, 119, 120, 3725].map(ageOf), ['0s', '119s', '2m0s', '1h2m'])
})
