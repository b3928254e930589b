/**
 * What each test file comes past without a change. It is remembered while the file and all that it loads
 * stay as they are: most of it is the same from one sample to the next.
 */
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { dependenciesOf } from '../imports.ts'
import type { Copy } from './instrument.ts'
import { baseline, type TestFile } from './judge.ts'

interface Remembered {
  of: string
  milliseconds: number
  recorded: TestFile['recorded']
}

export class Baselines {
  readonly #root: string
  readonly #copy: Copy
  readonly #memory: string
  readonly #found = new Map<string, Promise<TestFile | undefined>>()
  readonly #keys: Map<string, string>
  readonly #ids: Map<string, string>

  /** `memory`: the folder for what is remembered. */
  constructor(root: string, copy: Copy, memory: string) {
    this.#root = root
    this.#copy = copy
    this.#memory = memory
    this.#keys = new Map(copy.mutants.map(({ id, key }) => [id, key]))
    this.#ids = new Map(copy.mutants.map(({ id, key }) => [key, id]))
    mkdirSync(memory, { recursive: true })
  }

  /** Undefined where the file fails without a change. */
  of(file: string): Promise<TestFile | undefined> {
    const known = this.#found.get(file) ?? this.#rememberedOrRun(file)
    this.#found.set(file, known)
    return known
  }

  async #rememberedOrRun(file: string): Promise<TestFile | undefined> {
    const of = digestOf(file, this.#root)
    const remembered = this.#read(file)
    if (remembered?.of === of) {
      const { milliseconds, recorded } = remembered
      return { file, milliseconds, recorded: renamed(recorded, this.#ids) }
    }
    const found = await baseline(this.#copy.folder, file)
    if (found === undefined) return undefined
    const { milliseconds } = found
    const recorded = renamed(found.recorded, this.#keys)
    writeFileSync(this.#pathOf(file), JSON.stringify({ of, milliseconds, recorded }))
    return { file, milliseconds, recorded: renamed(recorded, this.#ids) }
  }

  #read(file: string): Remembered | undefined {
    const path = this.#pathOf(file)
    if (!existsSync(path)) return undefined
    return JSON.parse(readFileSync(path, 'utf8')) as Remembered
  }

  #pathOf(file: string): string {
    return join(this.#memory, `${file.replaceAll('/', '-')}.json`)
  }
}

/** Of the test and of all that it loads. */
export function digestOf(file: string, root: string): string {
  const hash = createHash('sha256')
  for (const path of dependenciesOf(file, root)) {
    hash.update(`${path}\n`).update(readFileSync(join(root, path)))
  }
  return hash.digest('hex')
}

function renamed(
  { loading, tests }: TestFile['recorded'],
  names: Map<string, string>,
): TestFile['recorded'] {
  const rename = (hits: Record<string, number>) =>
    Object.fromEntries(
      Object.entries(hits).flatMap(([name, count]) => {
        const found = names.get(name)
        return found === undefined ? [] : [[found, count]]
      }),
    )
  const renamedTests = Object.entries(tests).map(([number, { milliseconds, hits }]) => [
    number,
    { milliseconds, hits: rename(hits) },
  ])
  return { loading: rename(loading), tests: Object.fromEntries(renamedTests) as typeof tests }
}
