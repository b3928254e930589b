/** The workflow files: they parse, pin what they use, and name existing files and scripts. */
import { spawnSync } from 'node:child_process'
import { existsSync, globSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parseDocument } from 'yaml'

/** Commands of npm itself. */
const OF_NPM = ['ci', 'audit']

const ROOT = join(import.meta.dirname, '../..')
const FOLDER = '.github/workflows'
const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const { scripts } = JSON.parse(text('package.json')) as { scripts: Record<string, string> }

interface Job {
  needs?: string | string[]
  'runs-on'?: string
  'timeout-minutes'?: number
  container?: { image?: string }
  permissions?: Record<string, string>
  strategy?: { matrix?: { include?: Record<string, unknown>[] } }
  outputs?: Record<string, string>
  steps?: Step[]
}
interface Step {
  id?: string
  uses?: string
  run?: string
}
interface Workflow {
  name?: string
  on?: object
  permissions?: object
  env?: Record<string, string>
  jobs?: Record<string, Job>
}

/** Other commands with which a line of a step may begin. */
const FOUND_ON_A_RUNNER = [
  ...['docker', 'helm', 'gh', 'jq', 'git', 'go', 'node', 'npm', 'npx', 'grep', 'find', 'cosign'],
]
/** What a checkout does not have: a step before unpacks it. */
const MADE = './vec-operator'

for (const file of globSync(`${FOLDER}/*`, { cwd: ROOT })) {
  const document = parseDocument(text(file), { uniqueKeys: true })
  const { name, on, permissions, env = {}, jobs = {} } = document.toJS() as Workflow
  const all = Object.entries(jobs)
  const steps = all.flatMap(([, { steps: those = [] }]) => those)
  const commands = steps.map(({ run = '' }) => run).join('\n')

  t.test(`${file} is a workflow: it parses, and each job has what it needs`, async (t) => {
    t.strictSame([...document.errors, ...document.warnings], [])
    t.ok(name !== undefined && on !== undefined && all.length > 0)
    t.strictSame(permissions, {}, 'no right but those that a job names')
    for (const [job, { needs = [], ...rest }] of all) {
      for (const runner of runnersOf(rest)) {
        t.match(
          runner,
          /^(ubuntu-\d\d\.\d\d(-arm)?|macos-\d+(-intel)?|windows-\d{4})$/,
          `${job} runs on a version, not on the latest`,
        )
      }
      t.ok(rest.permissions, `${job} names its rights`)
      for (const before of [needs].flat()) t.ok(jobs[before], `${job} needs ${before}`)
    }
    for (const step of steps) t.ok((step.uses === undefined) !== (step.run === undefined))
  })

  t.test(`${file}: every action is pinned by commit, one commit for each action`, async (t) => {
    const used = [...text(file).matchAll(/^ *- uses: (.*)$/gm)].map(([, action = '']) => action)
    t.equal(used.length, steps.filter(({ uses }) => uses !== undefined).length)
    for (const action of used) t.match(action, /^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/)
    const names = new Set(used.map((action) => action.split('@')[0]))
    t.equal(new Set(used).size, names.size)
  })

  t.test(`${file}: every container has an image of a whole version`, async (t) => {
    for (const [job, { container }] of all) {
      if (container === undefined) continue
      t.match(container.image, /^[\w./-]+:\d+\.\d+\.\d+(-\w+)?$/, job)
    }
  })

  t.test(`${file}: what its steps call and read is there`, async (t) => {
    for (const [, script = ''] of commands.matchAll(/npm (?:run )?(?:--\S+ )*([\w:]+)/g)) {
      t.ok(OF_NPM.includes(script) || scripts[script] !== undefined, `npm ${script}`)
    }
    for (const [path] of commands.matchAll(/(?<![\w/.$-])\.?(?:ci|chart)\/[\w.*/-]+/g)) {
      const found = globSync(path, { cwd: ROOT })
      t.ok(found.length > 0, path)
      if (path.startsWith('.ci/')) t.ok(statSync(join(ROOT, path)).mode & 0o100, `${path} runs`)
    }
    for (const [, path = ''] of commands.matchAll(/require\("\.\/([^"]+)"\)/g)) {
      t.ok(existsSync(join(ROOT, path)), path)
    }
    const first = commands.matchAll(/^(?!version=|test |export |echo |#|--|"|\S+=)([\w./-]+) /gm)
    for (const [, word = ''] of first) {
      const known = FOUND_ON_A_RUNNER.includes(word) || existsSync(join(ROOT, word))
      t.ok(known || word.startsWith(MADE) || word.startsWith('chart/crds'), word)
    }
  })

  t.test(`${file}: every value that it takes from elsewhere is given there`, async (t) => {
    const whole = text(file)
    for (const [, output = '', step = '', key = ''] of whole.matchAll(
      /^ {6}(\w+): \$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}$/gm,
    )) {
      t.equal(output, key)
      const giving = steps.find(({ id }) => id === step)
      t.match(giving?.run, new RegExp(`echo "${key}=.*>> "\\$GITHUB_OUTPUT"`), `${step}.${key}`)
    }
    for (const [, job = '', output = ''] of whole.matchAll(/needs\.(\w+)\.outputs\.(\w+)/g)) {
      t.ok(jobs[job]?.outputs?.[output], `${job}.${output}`)
    }
    for (const [, variable = ''] of commands.matchAll(/\$\{?([A-Z][A-Z_]*)/g)) {
      const isGiven = variable.startsWith('GITHUB_') || variable in env
      t.ok(isGiven || new RegExp(`^ {10}${variable}: `, 'm').test(whole), `$${variable}`)
    }
    for (const [, secret] of whole.matchAll(/secrets\.(\w+)/g)) t.equal(secret, 'GITHUB_TOKEN')
  })

  t.test(`${file}: the shell reads every step`, async (t) => {
    for (const { run } of steps) {
      if (run === undefined) continue
      const { status, stderr } = spawnSync('bash', ['-n'], { input: run, encoding: 'utf8' })
      t.equal(status, 0, stderr)
    }
  })
}

/** A job with a matrix may have several. */
function runnersOf({ 'runs-on': runner, strategy }: Job): unknown[] {
  if (runner !== '${{ matrix.runner }}') return [runner]
  return strategy?.matrix?.include?.map((entry) => entry['runner']) ?? []
}
