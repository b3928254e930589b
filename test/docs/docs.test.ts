/** Commands, files, flags, chart values, samples, annotations and links in the documentation exist. */
import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import t from 'tap'
import type { Test } from 'tap'
import { parse, parseAllDocuments } from 'yaml'
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { FAILURES } from '../../crds/reasons/index.ts'
import { COMMANDS, findCommand } from '../../jobs/kubectl/cli.ts'
import { commandHelp } from '../../jobs/kubectl/help.ts'
import { certificateHosts } from '../scenarios/certificate.ts'
import { admit } from '../world/admission/admit.ts'
import { commandsIn, pages, quickstartCommands, ROOT } from './pages.ts'

const PAGES = pages()
const { scripts } = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')) as {
  scripts: Record<string, string>
}
const values: unknown = parse(readFileSync(`${ROOT}chart/values.yaml`, 'utf8'))

for (const page of PAGES) {
  t.test(`${page.path}: every link has a target`, async (t) => {
    for (const link of page.links) {
      const [file = '', anchor] = link.split('#')
      const path = file === '' ? page.path : normalize(join(dirname(page.path), file))
      t.ok(existsSync(ROOT + path), link)
      if (anchor === undefined) continue
      t.ok(PAGES.find((one) => one.path === path)?.anchors.has(anchor), link)
    }
  })

  t.test(`${page.path}: every command exists with its files, flags and values`, async (t) => {
    for (const { text } of page.blocks.filter(({ language }) => language === 'sh')) {
      for (const command of commandsIn(text)) check(t, command)
    }
  })

  t.test(`${page.path}: every command that its sentences name exists`, async (t) => {
    for (const span of page.spans) {
      const [program = '', verb = '', ...rest] = span.split(' ')
      if (program === 'npm' && ['run', 'start', 'test'].includes(verb))
        npm(t, [verb, ...rest], span)
      if (program === 'kubectl' && /^[a-z]/.test(rest[0] ?? '')) kubectl(t, [verb, ...rest], span)
      if (program === 'vec-operator' && verb !== '')
        t.ok(findCommand([verb, ...rest]) !== undefined, span)
    }
  })

  t.test(`${page.path}: every resource in it is admitted`, async (t) => {
    for (const { text } of page.blocks.filter(({ language }) => language === 'yaml')) {
      for (const document of parseAllDocuments(text)) {
        t.strictSame(document.errors, [])
        const object = document.toJS() as AnyObject
        if (object.apiVersion === API_VERSION) admitted(t, object)
      }
    }
  })

  t.test(`${page.path}: every annotation in it exists`, async (t) => {
    const known = new Set<string>([...Object.values(ANNOTATIONS), ...NAMES])
    for (const [name] of page.text.matchAll(/vec-operator\.dev\/[a-z][a-z0-9]*(-[a-z0-9]+)*/g)) {
      t.ok(known.has(name), name)
    }
  })
}

/** Names below the API group that are not annotations: its version, a label, the specified finalizer. */
const NAMES = [API_VERSION, 'vec-operator.dev/schedule', 'vec-operator.dev/finalizer']

for (const path of globSync('docs/**/*.yaml', { cwd: ROOT })) {
  t.test(`${path} is admitted without changes`, async (t) => {
    for (const document of parseAllDocuments(readFileSync(ROOT + path, 'utf8'))) {
      t.strictSame(document.errors, [])
      const object = document.toJS() as AnyObject
      if (object.apiVersion === API_VERSION) admitted(t, object)
    }
  })
}

t.test('README.md has at most 150 lines and the commands of demo and tests', async (t) => {
  const page = PAGES.find(({ path }) => path === 'README.md')
  t.ok((page?.text.trimEnd().split('\n').length ?? Infinity) <= 150)
  const commands = page?.blocks.map(({ text }) => text.trim())
  for (const command of ['npm ci && npm run demo', 'npm ci && npm test']) {
    t.ok(commands?.includes(command), command)
  }
})

t.test('README.md has the newest row of what was run', async (t) => {
  const rowsOf = (path: string) => {
    const text = PAGES.find((page) => page.path === path)?.text ?? ''
    const rows = text.match(/^\|.* \d{4}-\d\d-\d\d +\|$/gm) ?? []
    return rows.map((row) => row.replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1').split(/ *\| */))
  }
  const date = (row: string[]) => row.at(-2) ?? ''
  const rows = rowsOf('docs/supported-versions.md')
  const newest = rows.reduce((one, other) => (date(one) < date(other) ? other : one))
  t.strictSame(rowsOf('README.md'), [newest])
})

t.test('the quickstart has at most fifteen commands up to the restore', async (t) => {
  const commands = quickstartCommands().map((command) => command.join(' '))
  t.ok(commands.length <= 15, commands.join('\n'))
  t.match(commands.at(-1), '/points/count')
})

t.test('docs/architecture.md names files and functions that exist', async (t) => {
  const page = PAGES.find(({ path }) => path === 'docs/architecture.md')
  const sources = globSync('{crds,hooks,jobs,metacontroller}/**/*.ts', { cwd: ROOT })
  const files = page?.text.match(/[a-z][a-z-]*\.ts\b/g) ?? []
  t.not(files.length, 0)
  for (const file of files)
    t.ok(
      sources.some((path) => `/${path}`.endsWith(`/${file}`)),
      file,
    )
  const functions = [...(page?.text.matchAll(/`(\w+)` in\s+\[?(?:[a-z-]+\/)*([a-z-]+\.ts)/g) ?? [])]
  t.not(functions.length, 0)
  for (const [text, name, file] of functions) {
    const linked = page?.links.filter((link) => link.endsWith(`/${file}`)) ?? []
    const texts = linked.map((link) => readFileSync(join(ROOT, 'docs', link), 'utf8'))
    t.ok(
      texts.some((source) => source.includes(`function ${name}(`)),
      text,
    )
  }
})

t.test(
  'the certificate of docs/operations.md has the names and usages of nodes with p2p TLS',
  (t) => {
    const blocks = PAGES.find(({ path }) => path === 'docs/operations.md')?.blocks ?? []
    const certificates = blocks
      .filter(({ language }) => language === 'yaml')
      .flatMap(({ text }) => parseAllDocuments(text))
      .map((document) => document.toJS() as Partial<AnyObject> & { spec?: Record<string, unknown> })
      .filter(({ kind }) => kind === 'Certificate')
    t.equal(certificates.length, 1)
    const { dnsNames, usages } = certificates[0]?.spec ?? {}
    // With the certificate of the scenario with these names, the nodes of a real engine trust each other.
    t.strictSame(dnsNames, certificateHosts({ namespace: 'default', name: 'docs' }, [0, 1, 2]))
    t.strictSame(usages, ['server auth', 'client auth'])
    t.end()
  },
)

t.test('the index names every page', async (t) => {
  const index = PAGES.find(({ path }) => path === 'docs/README.md')
  const named = new Set(index?.links.map((link) => normalize(join('docs', link))))
  for (const { path } of PAGES.filter((page) => page.path.startsWith('docs/'))) {
    t.ok(path === 'docs/README.md' || named.has(path), path)
  }
})

t.test('docs/command-line.md has the printed help of every CLI command', async (t) => {
  const page = PAGES.find(({ path }) => path === 'docs/command-line.md')
  const helpTexts = page?.blocks.filter(({ language }) => language === '').map(({ text }) => text)
  t.strictSame(helpTexts, COMMANDS.map(commandHelp))
})

t.test('the page of every kind links to its reasons', async (t) => {
  for (const page of PAGES.filter(({ path }) => path.startsWith('docs/kinds/'))) {
    t.ok(
      page.links.some((link) => link.startsWith('../reasons.md#')),
      page.path,
    )
  }
})

t.test(
  'the page of a kind that can fail has every error with cause and fix, as explain has',
  async (t) => {
    for (const [kind, failures] of Object.entries(FAILURES)) {
      const page = PAGES.find(({ path }) => path === `docs/kinds/${kind.slice(3).toLowerCase()}.md`)
      const [, table = ''] = page?.text.split('Errors in `status.error`:\n\n') ?? []
      const [rows = ''] = table.split('\n\n')
      t.strictSame(
        rows
          .trim()
          .split('\n')
          .slice(2)
          .map((row) => row.split('|').map((cell) => cell.trim())),
        failures.map(({ patterns: words, cause, fix }) => {
          return ['', words.map((word) => `\`${word}\``).join(', '), cause, fix, '']
        }),
      )
    }
  },
)

function check(t: Test, command: string[]): void {
  const [program = '', ...args] = command.filter((word) => !/^[A-Z_]+=/.test(word))
  const said = command.join(' ')
  switch (program) {
    case 'npm':
      npm(t, args, said)
      break
    case 'npx':
      // Without --no, npx outside a checkout installs a package of this name, which is not ours.
      if (args.slice(0, 3).join(' ') === '--no -- vec-operator') cliCommand(t, args.slice(3), said)
      else if (args[0] === 'tap') t.ok(existsSync(`${ROOT}${args[1] ?? ''}`), said)
      else t.fail(said)
      break
    case 'vec-operator':
      cliCommand(t, args, said)
      break
    case 'kubectl':
      if (args[0] === 'vec-operator') cliCommand(t, args.slice(1), said)
      else kubectl(t, args, said)
      break
    case 'helm':
      helm(t, args, said)
      break
    case 'docs/quickstart/install.sh':
      t.ok(existsSync(ROOT + program), said)
      helm(t, args, said)
      break
    case '.ci/kind': {
      const verbs = /^([a-z |]+)\) "\$1" ;;$/m.exec(readFileSync(`${ROOT}.ci/kind`, 'utf8'))?.[1]
      t.ok(verbs?.split(' | ').includes(args[0] ?? ''), said)
      break
    }
    default:
      t.ok(OTHERS.has(program), said)
  }
}

/** Other programs, whose arguments are not checked. */
const OTHERS = new Set([
  'aws',
  'kind',
  'docker',
  'curl',
  'base64',
  'ln',
  'tar',
  'openssl',
  'git',
  'cd',
  'export',
  'source',
])

function npm(t: Test, [verb = '', ...rest]: string[], said: string): void {
  if (verb === 'ci') return
  if (verb === 'install') {
    t.ok(
      rest.every((word) => word.startsWith('-') || word.startsWith('dist/')),
      said,
    )
    return
  }
  const script = verb === 'run' ? (rest[0] ?? '') : verb
  t.ok(scripts[script] !== undefined, said)
}

/** A command of the CLI, with known flags and a valid number of operands. */
function cliCommand(t: Test, args: string[], said: string): void {
  const command = findCommand(args)
  if (command === undefined) {
    t.match(args[0], /^--(help|version)$/, said)
    return
  }
  const rest = args.slice(command.name.split(' ').length)
  const flags = Object.entries(command.flags)
  let operands = 0
  for (let at = 0; at < rest.length; at += 1) {
    const word = rest[at] ?? ''
    if (!word.startsWith('-')) operands += 1
    else {
      const flag = flags.find(
        ([long, { short }]) => word === `--${long}` || word === `-${short ?? ''}`,
      )
      t.ok(flag !== undefined || word === '--help', said)
      if (flag?.[1].type === 'string') at += 1
    }
  }
  const { min: least, max: most } = command.operandCount
  t.ok(operands >= least && operands <= most, said)
}

const BUILT_IN = new Set([
  ...['pvc', 'pods', 'secret', 'service', 'deployment', 'statefulset', 'job', 'events', 'crd'],
  ...['namespace', 'compositecontrollers', 'configmap', 'leases', 'generic', 'serviceaccount'],
])

/** Applied files exist; kinds are those of Kubernetes or of this operator. */
function kubectl(t: Test, args: string[], said: string): void {
  for (const flag of ['-f', '-k']) {
    const file = args[args.indexOf(flag) + 1] ?? ''
    if (!args.includes(flag) || file === '-' || /^https?:/.test(file)) continue
    t.ok(existsSync(ROOT + file), said)
  }
  const [verb = '', second = '', third = ''] = args.filter((word) => !word.startsWith('-'))
  const target = verb === 'rollout' || verb === 'create' ? third || second : second
  const first = verb === 'create' ? second : target
  if (
    ![
      'get',
      'delete',
      'describe',
      'patch',
      'annotate',
      'wait',
      'rollout',
      'create',
      'edit',
    ].includes(verb)
  )
    return
  if (args.includes('-f')) return
  for (const kind of (first.split('/')[0] ?? '').split(',')) {
    t.ok(BUILT_IN.has(kind) || ours(kind), `${said}: ${kind}`)
  }
}

function ours(word: string): boolean {
  return RESOURCES.some(({ singular, plural, shortName }) =>
    [singular, plural, shortName].includes(word),
  )
}

/** Values of --set exist in the chart. */
function helm(t: Test, args: string[], said: string): void {
  for (const [at, word] of args.entries()) {
    if (word !== '--set') continue
    const [path = ''] = (args[at + 1] ?? '').split('=')
    const found = path
      .replace(/\[\d+\].*$/, '')
      .split('.')
      .reduce<unknown>(
        (value, key) => (value as Record<string, unknown> | undefined)?.[key],
        values,
      )
    t.not(found, undefined, `${said}: ${path}`)
  }
  if (args.includes('chart/')) t.ok(existsSync(`${ROOT}chart/Chart.yaml`), said)
}

function admitted(t: Test, object: AnyObject): void {
  const resource = RESOURCES.find(({ kind }) => kind === object.kind)
  if (resource === undefined) {
    t.fail(`${object.kind} is not a kind of this operator`)
    return
  }
  const { metadata } = object
  const whole = { ...object, metadata: { namespace: 'default', ...metadata } }
  t.doesNotThrow(() => admit(customResourceDefinition(resource, '0.1.0'), whole), metadata.name)
}
