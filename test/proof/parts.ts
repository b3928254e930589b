/** The parts of the proof: the command of each, and how its result is read from its output. */

export interface Part {
  name: string
  title: string
  /** Arguments of Node. */
  command: string[]
  /** Additional arguments for --short. */
  short: string[]
  /** Its result in a few words, from its output; undefined if there is none. */
  said: (output: string) => string | undefined
}

export const PARTS: Part[] = [
  {
    name: 'faults',
    title: 'Faults survived',
    command: ['test/faults/run.ts', '--seeds', '500'],
    short: ['--seeds', '10'],
    said: lineWith(/^\d+ seeds, .*/m),
  },
  {
    name: 'models',
    title: 'States explored',
    command: ['test/model/run.ts'],
    short: ['--short'],
    said: lineWith(/^\d+ states, .*/m),
  },
  {
    name: 'fuzz',
    title: 'Bad input',
    command: ['test/fuzz/main.ts', '--json'],
    short: ['--count', '2000', '--world', '20'],
    said: fuzzed,
  },
  {
    name: 'mutation',
    title: 'Changes noticed',
    command: ['test/mutation/main.ts'],
    short: ['--stored'],
    said: lineWith(/^\d+ of \d+ files: .*/m),
  },
  {
    name: 'bench',
    title: 'Measured',
    command: ['test/bench/bench.ts'],
    short: ['--seconds', '1', '--pairs', '1', '--parents', '1000'],
    said: measured,
  },
]

/** The last line of this form. */
function lineWith(form: RegExp): Part['said'] {
  return (output) => output.match(form)?.at(-1)
}

/** The number of targets met, then the whole table, folded. */
function measured(output: string): string {
  const table = output.trim()
  const count = (result: RegExp) => table.match(result)?.length ?? 0
  const met = count(/ met$/gm)
  return `${met} of ${met + count(/ MISSED$/gm)} targets met

<details><summary>the table</summary>

\`\`\`
${table}
\`\`\`

</details>`
}

function fuzzed(output: string): string | undefined {
  const line = output.match(/^\{"seed":.*\}$/m)?.at(-1)
  if (line === undefined) return undefined
  const { seed, subjects } = JSON.parse(line) as {
    seed: number
    subjects: Record<string, { cases: number; failures: unknown[] }>
  }
  const all = Object.entries(subjects).map(
    ([name, { cases, failures }]) => `${name} ${cases}${failures.length === 0 ? '' : ' (FAILED)'}`,
  )
  return `seed ${seed}, cases: ${all.join(', ')}`
}
