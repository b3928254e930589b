/** The parts of the proof: the claim of each, its command, and how its result is read from its output. */
import type { ParseArgsConfig } from 'node:util'
import { TWICE } from '../fuzz/subject.ts'

export interface Part {
  name: string
  title: string
  /** Arguments of Node. */
  command: string[]
  /** Additional arguments for --short. */
  short: string[]
  /**
   * Options that a result for the page may have been run with; those of the command are among them. With any other
   * argument, or with a smaller number than the command has, only a part of the claim was run.
   */
  options?: NonNullable<ParseArgsConfig['options']>
  /** What a result is about, and what it is not about. */
  scope: string
  /** A change after which the part must fail. */
  fails: string
  /** Paths whose change makes a result older than what it covers. */
  covers: readonly string[]
  /** Its result in a few words, from its output; undefined if there is none. */
  said: (output: string) => string | undefined
}

const PRODUCT = ['crds', 'hooks', 'jobs', 'metacontroller']
/** Only the tests that load the sources: other suites are not changed by them. */
const UNITS = PRODUCT.map((folder) => `test/${folder}`)

const TEXT = { type: 'string' } as const

export const PARTS: Part[] = [
  {
    name: 'defects',
    title: 'Former defects are noticed',
    command: ['test/mutation/planted.ts'],
    short: [],
    scope:
      'The defects of `test/mutation/defects.ts`, each planted in a copy of the sources. A defect counts as noticed where its test fails with it and passes without it.',
    fails: 'In the test that a defect names, delete the assertion that the defect breaks.',
    covers: [...PRODUCT, ...UNITS, 'test/mutation/defects.ts'],
    said: lineWith(/^\d+ of \d+ defects noticed$/gm),
  },
  {
    name: 'mutation',
    title: 'Changes of pure files are noticed',
    command: ['test/mutation/main.ts'],
    short: ['--stored'],
    scope:
      'One expression at a time in the pure files of `hooks/` and `crds/` (`test/mutation/files.ts`), with the tests of their folders. All of `metacontroller/` and the rest of `jobs/`, purge and restore among them, are sampled only, by the claim below.',
    fails:
      'Delete the assertions of `test/hooks/answer-validation.test.ts` and run it with `--again`.',
    covers: ['crds', 'hooks', 'jobs', 'test/crds', 'test/hooks', 'test/jobs', 'test/mutation'],
    said: lineWith(/^\d+ of \d+ files: .*/gm),
  },
  {
    name: 'sample',
    title: 'Random changes of all files are noticed',
    command: [
      ...['test/mutation/sample/main.ts', '--in', 'hooks,crds,jobs,metacontroller'],
      ...['--size', '1500'],
    ],
    short: ['--size', '20', '--least', '0'],
    options: { in: TEXT, size: TEXT, workers: TEXT, seconds: TEXT, continue: { type: 'boolean' } },
    scope:
      'Mutants drawn at random from all four folders, a new seed each run, each with the tests of its folder under `test/` that come past it, and then with those of `test/jobs`, `test/hooks`, `test/crds` and `test/metacontroller`, those that import the file and then the quickest first, until their baselines exceed a minute. Log lines are excluded.',
    fails: 'Run it with `--least 100`, or delete a test file of `test/jobs`.',
    covers: [...PRODUCT, ...UNITS, 'test/mutation'],
    said: lineWith(/^(?:passed|FAILED): \d+ of \d+ killed .*/gm),
  },
  {
    name: 'faults',
    title: 'Faults are survived on a simulated machine',
    command: ['test/faults/run.ts', '--seeds', '500'],
    short: ['--seeds', '10'],
    options: { seeds: TEXT },
    scope:
      'A mixed load of all seven kinds under random faults, with doubles of the engine, the store and Kubernetes. Whole points are compared with acknowledged writes, in every copy, both ways.',
    fails: 'In `test/doubles/engine/routes/points.ts`, leave out the last point of each upsert.',
    covers: [...PRODUCT, 'test/faults', 'test/doubles', 'test/world'],
    said: lineWith(/^\d+ seeds from \d+ on, .*/gm),
  },
  {
    name: 'hard',
    title: 'Data jobs are correct on real engines under faults',
    command: ['test/hard/main.ts', '--seeds', '20'],
    short: ['--doubles', '--seeds', '2'],
    options: { seeds: TEXT, 'at-once': TEXT },
    scope:
      'Backups, restores and migrations of real engines of three or five nodes, new seeds each run. Every replica is compared with acknowledged writes. With `--doubles`: no real engine.',
    fails: 'In `jobs/clients/engine/points.ts`, leave out the last point of each upsert.',
    covers: ['crds', 'jobs', 'test/hard'],
    said: lineWith(/^\d+ seeds in \d+ min, .*/gm),
  },
  {
    name: 'nodes',
    title: 'Nodes are added, removed and replaced without loss',
    command: ['test/nodes/main.ts', '--rounds', '50'],
    short: ['--rounds', '1'],
    options: { rounds: TEXT, 'at-once': TEXT, picture: TEXT },
    scope:
      'Real engines of one machine, changed by `cluster shards` under load and random kills, new seeds each run. Whole points are compared with acknowledged writes. The number of shards stays the same.',
    fails:
      'Run it with `--control`: the chart alone removes nodes that hold shards. Such a run is not recorded.',
    covers: ['crds', 'hooks/cluster', 'jobs', 'test/nodes'],
    said: lineWith(/^\d+ rounds in \d+ min, .*/gm),
  },
  {
    name: 'updates',
    title: 'A new version of the engine loses nothing and stops no last replica',
    command: ['test/updates/main.ts'],
    short: [],
    options: { from: TEXT, to: TEXT, rounds: TEXT },
    scope:
      'Real versions of the engine with their charts on the real cluster: three nodes, one edit of `spec.version`, under load through the Service; once with all replicas, once with one shard that has only one. Whole points are compared with acknowledged writes on every node.',
    fails:
      'In `jobs/cluster/shards/update.ts`, let `lastReplicas` find none: the node of the last replica is restarted.',
    covers: ['crds', 'hooks/cluster', 'jobs/cluster', 'chart', 'test/updates'],
    said: lineWith(/^\d+ updates by the operator .*/gm),
  },
  {
    name: 'release',
    title: 'A release is made and checked on one machine',
    command: ['test/release/rehearsal.ts'],
    short: [],
    scope:
      'What the workflow of a tag does, on one machine: chart, CRDs, the CLI as npm package and as one file for Linux and Windows, krew, a registry, signatures. Not the programs for macOS, the identity in the certificate, and runs on arm64, Windows and macOS.',
    fails: 'In `.ci/release.js`, leave out the checksum of one platform in the manifest of krew.',
    covers: ['.ci/release.js', 'Dockerfile', 'chart', 'jobs/main.ts', 'test/release'],
    said: lineWith(/(?<=^# )(rehearsed|FAILED): .*/gm),
  },
  {
    name: 'models',
    title: 'States of small models are explored',
    command: ['test/model/run.ts'],
    short: ['--short'],
    // The scope says what it explores then.
    options: { short: { type: 'boolean' } },
    scope:
      'The real hooks in small worlds (`test/model/lives.ts`); Metacontroller, the API server and the Jobs are modelled. With `--short`: one world of each kind. Completely explored unless the result says CAPPED.',
    fails: 'In a hook, return no children for one pass: `test/model/model.test.ts` does so.',
    covers: ['crds', 'hooks', 'test/model'],
    said: lineWith(/^\d+ states, .*/gm),
  },
  {
    name: 'fuzz',
    title: 'Bad input is refused or survived, and decisions agree with an independent model',
    command: ['test/fuzz/main.ts', '--json'],
    short: ['--count', '2000', '--world', '20'],
    options: { json: { type: 'boolean' } },
    scope:
      'Cases generated from a seed, a new one each run: decisions, specs, reports, requests, answers, manifests and listings. Engine, store and Kubernetes are doubles.',
    fails:
      'Plant a defect of `test/mutation/defects.ts` whose test is `test/fuzz/decisions.test.ts`.',
    covers: [...PRODUCT, 'test/fuzz', 'test/doubles'],
    said: fuzzed,
  },
  {
    name: 'cluster',
    title: 'The scenarios hold on a real cluster',
    command: ['test/cluster/run.ts'],
    short: [],
    scope:
      'etcd, Kubernetes, kubelet, containerd, CoreDNS, Helm and versitygw are real; the result names the engine, the chart and Metacontroller. One machine, one node.',
    fails: 'Remove a rule from a ClusterRole of `chart/templates`.',
    covers: [...PRODUCT, 'chart', 'test/cluster', 'test/scenarios'],
    said: clustered,
  },
  {
    name: 'bench',
    title: 'Cost, as ratios to a yardstick of the same run',
    command: ['test/bench/bench.ts'],
    short: ['--seconds', '1', '--pairs', '1', '--parents', '1000'],
    scope:
      'The rows of the table. A missed target and a row that could not be measured are counted, and the claim does not hold.',
    fails: 'Unset `S3_CLIENT`, or add a pause to `jobs/clients/s3/parts.ts`.',
    covers: [...PRODUCT, 'test/bench'],
    said: measured,
  },
]

/** The last line of this form. */
function lineWith(form: RegExp): Part['said'] {
  return (output) => output.match(form)?.at(-1)
}

/** The real parts, and how many checks passed. */
function clustered(output: string): string | undefined {
  const parts = output.match(/real parts: .*/g)?.at(-1)
  const counts = output.match(/^# \{ total: .*\}$/gm)?.at(-1)
  if (parts === undefined || counts === undefined) return undefined
  return `${counts.slice('# { '.length, -' }'.length)}; ${parts}`
}

/** How many targets were met and how many rows are missing, then the whole table, folded. */
function measured(output: string): string | undefined {
  const summary = lineWith(/^targets: .*/gm)(output)
  if (summary === undefined) return undefined
  return `${summary}

<details><summary>the table</summary>

\`\`\`
${output.trim()}
\`\`\`

</details>`
}

function fuzzed(output: string): string | undefined {
  const line = output.match(/^\{"seed":.*\}$/gm)?.at(-1)
  if (line === undefined) return undefined
  const { seed, subjects } = JSON.parse(line) as {
    seed: number
    subjects: Record<string, { cases: number; kinds: Record<string, number>; failures: unknown[] }>
  }
  const all = Object.entries(subjects).map(
    ([name, { cases, failures }]) => `${name} ${cases}${failures.length === 0 ? '' : ' (FAILED)'}`,
  )
  // What was run or asked twice is part of the result.
  const twice = TWICE.flatMap((kind) => {
    const count = Object.values(subjects).reduce((sum, { kinds }) => sum + (kinds[kind] ?? 0), 0)
    return count === 0 ? [] : [`; ${count} ${kind}`]
  })
  return `seed ${seed}, cases: ${all.join(', ')}${twice.join('')}`
}
