/** The command line: its help, and its answers without a cluster. */
import { spawnSync } from 'node:child_process'
import { chmodSync, statSync, symlinkSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import t from 'tap'
import { REASONS } from '../../../crds/reasons/index.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { COMMANDS } from '../../../jobs/kubectl/cli.ts'
import { findReasons } from '../../../jobs/kubectl/explain.ts'
import { matchWhole } from '../../match-whole.ts'
import { CLI } from '../job-fixture.ts'
import { runCommand } from './cli-user.ts'

for (const args of [[], ['--help'], ['help']]) {
  t.test(`"${args.join(' ')}" shows every command`, async (t) => {
    const { code, out } = await runCommand(args)
    t.equal(code, EXIT_CODES.success)
    for (const { name, summary } of COMMANDS) {
      t.ok(out.includes(`  ${name}`), name)
      t.ok(out.includes(summary), summary)
    }
  })
}

t.test('help with a command is the help of that command', async (t) => {
  for (const { name } of COMMANDS) {
    const words = name.split(' ')
    t.strictSame(await runCommand(['help', ...words]), await runCommand([...words, '--help']))
  }
})

for (const { name, flags } of COMMANDS) {
  t.test(`${name} --help names its flags and the exit codes`, async (t) => {
    const { code, out } = await runCommand([...name.split(' '), '--help'])
    t.equal(code, EXIT_CODES.success)
    t.match(out, `Usage: vec-operator ${name}`)
    t.match(out, /Exit codes: 0 success; 1 /)
    for (const flag of Object.keys(flags)) t.match(out, `--${flag}`)
  })

  t.test(`${name} with a flag it does not know is not understood`, async (t) => {
    const { code, out, err } = await runCommand([...name.split(' '), '--frobnicate'])
    t.strictSame({ code, out }, { code: EXIT_CODES.usage, out: '' })
    t.match(err, /Unknown option '--frobnicate'.*usage: vec-operator/s)
  })
}

t.test('--version prints the release', async (t) => {
  t.match(await runCommand(['--version']), {
    code: EXIT_CODES.success,
    out: /^vec-operator \d+\.\d+\.\d+/,
  })
})

for (const args of [['dance'], ['backup'], ['backup', 'dance'], ['cluster', 'dance', 'ns/a']]) {
  t.test(`"${args.join(' ')}" is no command`, async (t) => {
    const { code, err } = await runCommand(args)
    t.equal(code, EXIT_CODES.usage)
    t.match(err, /is not a command.*\nusage: vec-operator --help/)
  })
}

t.test('a partial command prints the complete commands', async (t) => {
  const { err } = await runCommand(['backup'])
  t.match(
    err,
    'backup is not a command; did you mean backup list or backup now or backup find or backup verify or backup delete?\n',
  )
})

t.test('a missing kubeconfig is reported without a stack', async (t) => {
  const { code, out, err } = await runCommand(['status'], { KUBECONFIG: '/does/not/exist' })
  t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
  t.match(err, /^vec-operator: no usable kubeconfig: .*\n$/)
})

t.test('without any kubeconfig, it says so', async (t) => {
  const env = { PATH: process.env['PATH'], HOME: t.testdir({}) }
  const { status, stdout, stderr } = spawnSync(process.execPath, [CLI, 'status'], {
    encoding: 'utf8',
    env,
  })
  t.strictSame({ status, stdout }, { status: EXIT_CODES.failure, stdout: '' })
  t.equal(
    stderr,
    'vec-operator: no usable kubeconfig: KUBECONFIG is not set, and there is no ~/.kube/config\n',
  )
})

t.test('a second resource is rejected, not ignored', async (t) => {
  for (const command of ['status', 'wait', 'logs', 'plan', 'advise']) {
    const env = { VEC_API_SERVER: 'http://127.0.0.1:1' }
    const { code, out, err } = await runCommand([command, 'qc/a', 'qc/b'], env)
    t.strictSame({ code, out }, { code: EXIT_CODES.usage, out: '' })
    t.match(err, `${command} qc/a qc/b: one resource at a time: use qc/<name>`)
  }
})

t.test('a file that cannot be read is reported without a stack', async (t) => {
  const env = { CLOUD_ACCESS_KEY_ID: 'a', CLOUD_SECRET_ACCESS_KEY: 'b' }
  for (const command of ['find', 'verify', 'delete']) {
    const args = ['backup', command, 's3://bucket/backups/one', '--ca', '/does/not/exist']
    const { code, out, err } = await runCommand(args, env)
    t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
    t.match(err, /^vec-operator: --ca \/does\/not\/exist: ENOENT.*\n$/)
  }
})

t.test('an endpoint without a scheme is not understood', async (t) => {
  const env = { CLOUD_ACCESS_KEY_ID: 'a', CLOUD_SECRET_ACCESS_KEY: 'b' }
  for (const command of ['find', 'verify', 'delete']) {
    const args = ['backup', command, 's3://bucket/backups/one', '--endpoint', 'store:9000']
    const { code, out, err } = await runCommand(args, env)
    t.strictSame({ code, out }, { code: EXIT_CODES.usage, out: '' })
    t.match(err, '--endpoint store:9000: must begin with https:// or http://')
  }
})

t.test('restore plan reports a file that has not one VecRestore', async (t) => {
  const env = { VEC_API_SERVER: 'http://127.0.0.1:1' }
  for (const [content, expected] of [
    ['a: [b\n', /restore\.yaml: .*Flow sequence/],
    ['a: 1\n---\nb: 2\n', /restore\.yaml: has 2 documents, and must have one VecRestore/],
    ['', /restore\.yaml: has 0 documents, and must have one VecRestore/],
    ['kind: VecCluster\n', /restore\.yaml: /],
  ] as const) {
    const file = join(t.testdir({ 'restore.yaml': content }), 'restore.yaml')
    const { code, out, err } = await runCommand(['restore', 'plan', '--file', file], env)
    t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' }, content)
    t.match(err, expected)
  }
})

for (const shell of ['bash', 'zsh']) {
  t.test(`the completion for ${shell} offers commands, kinds and flags`, async (t) => {
    const { code, out } = await runCommand(['completion', shell])
    t.equal(code, EXIT_CODES.success)
    // zsh reads the script by its emulation of bash.
    const script = `${out.replace(/^autoload.*\n/, '')}
      ask() { COMP_WORDS=(vec-operator "$@"); COMP_CWORD=$#; _vec_operator; echo "\${COMPREPLY[*]}"; }
      ask ''; ask backup ''; ask status ''; ask backup now nightly --; ask status -A -o ''`
    const { stdout } = spawnSync('bash', ['-c', script], { encoding: 'utf8' })
    t.strictSame(stdout.split('\n').slice(0, 2), [
      'status wait logs plan advise doctor explain backup restore support-bundle completion --help --version',
      'list now find verify delete',
    ])
    t.match(stdout.split('\n')[2], /^qc\/ qcol\/ .*--all-namespaces/)
    t.match(stdout.split('\n')[3], /^--kubeconfig .*--dry-run/)
    t.equal(stdout.split('\n')[4], 'json yaml name wide')
  })
}

t.test('an output format that a command does not have is not understood', async (t) => {
  for (const args of [['explain', 'moon'], ['status'], ['plan', 'qc/docs']]) {
    const { code, out, err } = await runCommand([...args, '--output', 'xml'])
    t.strictSame({ code, out }, { code: EXIT_CODES.usage, out: '' })
    t.match(err, /--output xml: must be one of json, yaml/)
  }
})

t.test('a completion for another shell is not understood', async (t) => {
  t.match(await runCommand(['completion', 'fish']), {
    code: EXIT_CODES.usage,
    err: /neither bash nor zsh/,
  })
})

t.test('kubectl finds the CLI by the name kubectl-vec_operator', async (t) => {
  const folder = t.testdir({})
  symlinkSync(CLI, join(folder, 'kubectl-vec_operator'))
  if ((statSync(CLI).mode & 0o100) === 0) chmodSync(CLI, 0o755)
  const path = [folder, dirname(process.execPath), process.env['PATH']].join(delimiter)
  const { status, stdout } = spawnSync('kubectl-vec_operator', ['explain', 'UpToDate'], {
    encoding: 'utf8',
    env: { PATH: path },
  })
  t.equal(status, EXIT_CODES.success)
  t.match(stdout, /^UpToDate \(VecCluster: Applied=True\)/)
})

t.test('explain finds a reason in any case, and prints its cause and fix', async (t) => {
  const { code, out } = await runCommand(['explain', 'shardswouldbelost'])
  t.equal(code, EXIT_CODES.success)
  t.match(out, /^ShardsWouldBeLost \(VecCluster: Applied=False, Warning Event\)\n/)
  t.match(out, /\n {2}cause .*\n {2}fix .*accept/)
})

t.test('explain finds a message by its form, also with the reason before it', async (t) => {
  for (const words of ['', 'ClusterNotReady ']) {
    const [one, ...more] = findReasons(`${words}cluster prod/docs is Upgrading, not Running`)
    t.match(one, { kind: 'VecBackup', reason: 'ClusterNotReady' })
    t.ok(more.every(({ reason }) => reason === 'ClusterNotReady'))
  }
})

t.test('of several forms the one that says most of a message explains it', async (t) => {
  for (const [message, reason] of [
    ['collection 3 of 7 (books), 1 of 3 nodes done: waits; 3 MiB of 4 MiB', 'RestoreRunning'],
    ['collection 2 of 7 (books): 100 of 7000 points, 20 points/s', 'MigrationRunning'],
    ['Backed up 1/2 collections: prefix holds another backup', 'BackupFailed'],
    ['vectors.size: desired 512, live 384', 'ImmutableFieldMismatch'],
  ] as const) {
    const like = findReasons(message).filter(({ condition }) => condition !== undefined)
    t.strictSame([...new Set(like.map((one) => one.reason))], [reason], message)
  }
})

t.test('explain finds every reason that there is', async (t) => {
  for (const [kind, reasons] of Object.entries(REASONS)) {
    for (const { reason } of reasons) {
      t.ok(
        findReasons(reason).some((one) => one.kind === kind),
        `${kind} ${reason}`,
      )
    }
  }
})

t.test(
  'explain knows the error of what has Failed, also behind the words of its Event',
  async (t) => {
    const error = 'GET s3://b/k answered 404 NoSuchBucket: The specified bucket does not exist'
    matchWhole(t, findReasons(error), [{ kind: 'VecBackup', fix: /^create the bucket/ }])
    matchWhole(t, findReasons(`Backed up 0/1 collections: ${error}`), [
      { reason: 'BackupFailed', fix: /^Fix the cause in status\.error/ },
      { kind: 'VecBackup', fix: /^create the bucket/ },
    ])
    matchWhole(
      t,
      findReasons('Backup was taken from 3 nodes but target cluster has 2; make one by shard'),
      [{ kind: 'VecRestore', cause: 'each node gets the snapshot of the node with its ordinal' }],
    )
  },
)

t.test('explain rejects a text that no reason or message matches', async (t) => {
  t.match(await runCommand(['explain', 'the', 'moon', 'is', 'full']), {
    code: EXIT_CODES.failure,
    out: /No known reason or message matches/,
  })
  t.match(await runCommand(['explain', 'moon', '--json']), {
    code: EXIT_CODES.failure,
    out: '[]\n',
  })
})

t.test('explain --json prints the fix of a reason as cure', async (t) => {
  const { code, out } = await runCommand(['explain', 'ShortApiKey', '--json'])
  t.equal(code, EXIT_CODES.success)
  const [entry, ...others] = JSON.parse(out) as Record<string, unknown>[]
  t.strictSame(others, [])
  t.match(entry, { kind: 'VecAccessKey', reason: 'ShortApiKey', cure: /^Replace the API key/ })
  t.notOk(entry !== undefined && 'fix' in entry)
})
