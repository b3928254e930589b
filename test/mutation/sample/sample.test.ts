/** The sampler: which mutants it creates, and that it distinguishes a detected one from a survivor. */
import { appendFileSync, readFileSync, writeFileSync } from 'node:fs'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import t from 'tap'
import { ROOT } from '../files.ts'
import { instrumentedCopy, type Mutant } from './instrument.ts'
import { Baselines } from './baselines.ts'
import { gate, type Sample } from './gate.ts'
import { baseline, Judge, type TestFile } from './judge.ts'
import { isLogged, loggedIn } from './logged.ts'
import { project } from './project.ts'
import { digestOfAll, readUnfinished, writeUnfinished } from './unfinished.ts'
import { Workers } from './workers.ts'

const FIRST = new Set(['first.test.ts'])

t.test('arguments of log calls are found, and nothing else', async (t) => {
  const text = `tools.log.info({ a }, 'said')\nlog.warn('x')\nconsole.info('shown')\nlog.child({ b: 'c' })`
  const ranges = loggedIn(text)
  const isIn = (part: string) => isLogged(ranges, text.indexOf(part), text.indexOf(part) + 3)
  t.ok(isIn("'said'"))
  t.ok(isIn("'x'"))
  t.notOk(isIn("'shown'"))
  t.notOk(isIn("'c'"))
})

t.test(
  'what a test asserts is killed, what it only calls survives, the rest is not covered',
  async (t) => {
    const root = project(t)
    const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
    const test = await baseline(folder, 'sum.test.ts')
    if (test === undefined) throw new Error('the test fails without a change')
    const verdicts = await verdictsOf(folder, mutants, [test])
    t.match(Object.fromEntries(verdicts), {
      '2 a + b -> a - b': 'killed',
      '5 a * b -> a / b': 'survived',
      '8 a - b -> a + b': 'not covered',
    })
    t.equal([...verdicts.keys()].filter((name) => name.startsWith('11 ')).length, 0, 'only logged')
  },
)

t.test('of a file only the tests that come past a mutant run', async (t) => {
  const root = project(t)
  writeFileSync(
    join(root, 'sum.test.ts'),
    [
      "import { appendFileSync } from 'node:fs'",
      "import t from 'tap'",
      "import { difference, sum } from './sum.ts'",
      'let shared = 0',
      "const ran = (name: string) => appendFileSync('../ran', name)",
      "t.test('sum', async (t) => { ran('s'); t.equal(sum(1, 2), 3); shared = 1 })",
      "t.test('difference, and needs sum', async (t) => {",
      "  ran('d'); difference(0, 0); t.equal(shared, 1)",
      '})',
    ].join('\n'),
  )
  const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
  const test = await baseline(folder, 'sum.test.ts')
  if (test === undefined) throw new Error('the test fails without a change')
  const ranFor = async (original: string, replacement: string) => {
    const mutant = mutants.find(
      (one) => one.original === original && one.replacement === replacement,
    )
    if (mutant === undefined) throw new Error('no such mutant')
    writeFileSync(join(root, 'ran'), '')
    const outcome = await new Judge(folder).judge(mutant, [test])
    return [outcome?.is, readFileSync(join(root, 'ran'), 'utf8')]
  }
  t.strictSame(await ranFor('a + b', 'a - b'), ['killed', 'ss'], 'once more without the mutant')
  t.strictSame(
    await ranFor('a - b', 'a + b'),
    ['survived', 'ddsd'],
    'it fails without the test before it, mutant or not: then all tests of the file run',
  )
})

/** It comes past all mutants and notices none: the next one is asked in a process for several mutants. */
function writeFirst(root: string): void {
  writeFileSync(
    join(root, 'first.test.ts'),
    [
      "import t from 'tap'",
      "import { difference, product, sum } from './sum.ts'",
      "t.test('all', async () => { sum(1, 2); product(1, 2); difference(1, 2) })",
    ].join('\n'),
  )
}

async function testFiles(folder: string): Promise<TestFile[]> {
  const names = ['first.test.ts', 'sum.test.ts']
  const found = await Promise.all(names.map((name) => baseline(folder, name)))
  return found.map((file) => {
    if (file === undefined) throw new Error('a test fails without a change')
    return file
  })
}

t.test('one process judges several mutants, with the verdicts of separate processes', async (t) => {
  const root = project(t)
  writeFirst(root)
  writeFileSync(
    join(root, 'sum.test.ts'),
    [
      "import { appendFileSync } from 'node:fs'",
      "import t from 'tap'",
      "import { difference, product, sum } from './sum.ts'",
      "const ran = () => appendFileSync('../ran', `${process.pid} `)",
      "t.test('sum', async (t) => { ran(); t.equal(sum(1, 2), 3) })",
      "t.test('others', async (t) => { ran(); product(1, 2); difference(1, 2) })",
    ].join('\n'),
  )
  const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
  const tests = await testFiles(folder)
  const separate = await verdictsOf(folder, mutants, tests)
  const workers = new Workers(folder)
  t.strictSame(await verdictsOf(folder, mutants, tests, workers), separate)
  writeFileSync(join(root, 'ran'), '')
  const survivors = mutants.filter(({ line }) => line > 3)
  const verdicts = await verdictsOf(folder, survivors, tests, workers)
  workers.end()
  t.strictSame(new Set(verdicts.values()), new Set(['survived', 'not covered']))
  t.ok(verdicts.size > 3)
  const ran = readFileSync(join(root, 'ran'), 'utf8').trim().split(' ')
  t.equal(new Set(ran).size, 1, 'survivors need no further process')
})

t.test('what only a process for several mutants notices kills none', async (t) => {
  const judged = async (body: string, originals = ['a + b', 'a + b']) => {
    const root = project(t)
    writeFirst(root)
    writeFileSync(
      join(root, 'sum.test.ts'),
      [
        "import t from 'tap'",
        "import { product, sum } from './sum.ts'",
        'let runs = 0',
        'let former: number | undefined',
        `t.test('sum', async (t) => { runs += 1; ${body} })`,
      ].join('\n'),
    )
    const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
    const tests = await testFiles(folder)
    const workers = new Workers(folder)
    const judge = new Judge(folder)
    const verdicts: (string | undefined)[] = []
    for (const one of originals) {
      const mutant = mutants.find(({ original }) => original === one)
      if (mutant === undefined) throw new Error('no such mutant')
      verdicts.push((await judge.judge(mutant, tests, { workers, first: FIRST }))?.is)
    }
    workers.end()
    return verdicts
  }
  t.strictSame(
    await judged('t.type(sum(1, 2), "number"); t.equal(runs, 1)'),
    ['survived', 'survived'],
    'the test passes once in a process',
  )
  t.strictSame(
    await judged(
      't.type(sum(1, 2), "number"); if (sum(1, 2) !== 3) await new Promise(() => undefined)',
    ),
    ['killed', 'killed'],
    'the test has nothing to do and does not end',
  )
  t.strictSame(
    await judged('if (sum(1, 2) !== 3) void Promise.reject(new Error("no sum"))'),
    ['killed', 'killed'],
    'nothing waits for the error',
  )
  t.strictSame(
    await judged('product(1, 2); former ??= sum(1, 2); t.equal(former, 3)', ['a * b', 'a + b']),
    ['survived', 'killed'],
    'the process has the result of before',
  )
})

t.test('a test that is ended from outside judges no mutant', async (t) => {
  for (const [signal, expected] of [
    ['SIGKILL', undefined],
    ['SIGTERM', undefined],
    ['SIGABRT', 'killed'],
  ] as const) {
    const root = project(t)
    writeFileSync(
      join(root, 'sum.test.ts'),
      [
        "import t from 'tap'",
        "import { sum } from './sum.ts'",
        "t.test('sum', async (t) => {",
        '  t.ok(sum(1, 2))',
        '  if (process.env.__STRYKER_ACTIVE_MUTANT__ === undefined) return',
        `  process.kill(process.pid, '${signal}')`,
        '  await new Promise(() => setInterval(() => {}, 1000))',
        '})',
      ].join('\n'),
    )
    const { folder, mutants } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
    const test = await baseline(folder, 'sum.test.ts')
    const mutant = mutants.find(({ original }) => original === 'a + b')
    if (test === undefined || mutant === undefined) throw new Error('nothing to judge')
    t.equal((await new Judge(folder).judge(mutant, [test]))?.is, expected, signal)
  }
})

t.test('what a test comes past is remembered until something that it loads changes', async (t) => {
  const root = project(t)
  const recordedNow = async () => {
    const copy = await instrumentedCopy(root, join(root, 'dist/copy'), ['sum.ts'])
    const found = await new Baselines(root, copy, join(root, 'dist/memory')).of('sum.test.ts')
    return found?.milliseconds
  }
  const first = await recordedNow()
  t.type(first, 'number')
  const memory = join(root, 'dist/memory/sum.test.ts.json')
  const text = readFileSync(memory, 'utf8')
  writeFileSync(memory, text.replace(`"milliseconds":${first}`, '"milliseconds":1234567'))
  t.equal(await recordedNow(), 1234567, 'remembered')
  appendFileSync(join(root, 'sum.ts'), '\n// changed\n')
  t.not(await recordedNow(), 1234567, 'run again')
  appendFileSync(join(root, 'sum.test.ts'), '\nthrow new Error("always")\n')
  t.equal(await recordedNow(), undefined, 'fails')
})

t.test('the gate fails below the required share, and for a sample cut short', async (t) => {
  const sample = (kills: number, survivors: number, more: Partial<Sample> = {}): Sample => ({
    outcomes: [
      ...Array<'killed'>(kills).fill('killed'),
      ...Array<'survived'>(survivors).fill('survived'),
    ],
    explained: 0,
    expired: 0,
    drawn: kills + survivors,
    scope: { files: 3, lines: 400, mutants: 500 },
    least: 85,
    ...more,
  })
  t.strictSame(gate(sample(85, 15)), {
    passes: true,
    says:
      'passed: 85 of 100 killed (0 by time-out): 85.0 %, at least 85 % are required; 15 survived and ' +
      '0 not covered, 0 of them explained, 0 killed although explained; 100 of 100 drawn judged, drawn from 500 mutants in 3 files of 400 lines',
  })
  t.equal(gate(sample(84, 16)).passes, false)
  t.equal(gate(sample(90, 10, { expired: 1 })).passes, false, 'an explanation has expired')
  t.match(gate(sample(84, 16)).says, /^FAILED: 84 of 100 killed/)
  t.equal(gate(sample(84, 16, { explained: 2 })).passes, true, '84 of 98')
  t.equal(gate(sample(85, 15, { drawn: 101 })).passes, false, 'one was not judged')
  t.equal(gate(sample(0, 0)).passes, false, 'nothing is no proof')
  t.equal(gate(sample(0, 2, { explained: 2 })).passes, false, 'nothing was killed')
})

t.test(
  'the command ends with 1 where the gate fails, prints its scope, and can be continued',
  async (t) => {
    const run = (...more: string[]) => {
      const size = ['--in', 'crds/units.ts', '--size', '2', '--minutes=-1']
      const command = ['test/mutation/sample/main.ts', ...size, ...more]
      return spawnSync(process.execPath, command, { cwd: ROOT, encoding: 'utf8' })
    }
    const { status, stdout } = run()
    t.equal(status, 1)
    t.match(
      stdout,
      /^FAILED: 0 of 0 killed .* 0 of 2 drawn judged, drawn from \d+ mutants in 1 files/m,
    )
    const [seed] = /seed \d+/.exec(stdout) ?? []
    t.ok(seed)
    t.match(run('--continue').stdout, new RegExp(`^FAILED: .*; ${seed}, `, 'm'), 'the same mutants')
  },
)

t.test('a sample is continued as long as no source and no test has changed', async (t) => {
  const root = project(t)
  const file = join(root, 'dist/unfinished.json')
  t.throws(() => readUnfinished(file, root), /there is no run that was stopped/)
  const killed = { outcome: { is: 'killed', by: 'sum.test.ts' }, judges: 'own' } as const
  const verdicts = { 'sum.ts 1': killed }
  const unfinished = { of: digestOfAll(root), seed: 7, seconds: 60, verdicts }
  writeUnfinished(file, unfinished, false)
  t.strictSame(readUnfinished(file, root), unfinished)
  appendFileSync(join(root, 'test/preload.ts'), '\n')
  t.throws(() => readUnfinished(file, root), /sources or tests have changed/)
  writeUnfinished(file, unfinished, true)
  t.throws(() => readUnfinished(file, root), /there is no run that was stopped/)
})

t.test('a test that fails without a change judges nothing', async (t) => {
  const root = project(t)
  writeFileSync(join(root, 'sum.test.ts'), 'throw new Error("always")')
  const { folder } = await instrumentedCopy(root, join(root, 'dist'), ['sum.ts'])
  t.equal(await baseline(folder, 'sum.test.ts'), undefined)
})

/** A repository with one source and one test of it. */
async function verdictsOf(
  folder: string,
  mutants: readonly Mutant[],
  tests: readonly TestFile[],
  workers?: Workers,
): Promise<Map<string, string>> {
  const verdicts = new Map<string, string>()
  const judge = new Judge(folder)
  for (const mutant of mutants) {
    const outcome = await judge.judge(mutant, tests, { first: FIRST, ...(workers && { workers }) })
    verdicts.set(
      `${mutant.line} ${mutant.original} -> ${mutant.replacement}`,
      outcome?.is ?? 'not judged',
    )
  }
  return verdicts
}
