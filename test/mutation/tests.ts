/**
 * The tests of some files, loaded into this process and kept instead of run: they are called again for
 * each change. After a change in module-level code the reachable modules are loaded again.
 */
import { registerHooks } from 'node:module'
import { join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { reachedBy } from './imports.ts'

export type Run = (t: unknown) => unknown

export interface Registered {
  /** The same in each load. */
  id: string
  name: string
  run: Run
}

const REGISTRY = Symbol.for('vec-operator.tests')
const shared = globalThis as unknown as Record<
  symbol,
  (file: string, name: string, run: Run) => void
>

export class Tests {
  readonly #root: string
  readonly #files: readonly string[]
  readonly #reached: ReadonlySet<string>
  #loads = 0
  #registered: Registered[] = []

  /** Those of the files that are to notice changes in `changed`; paths from the root. */
  constructor(files: readonly string[], changed: string, root: string) {
    this.#root = root
    this.#files = files
    this.#reached = reachedBy(changed, files, root)
    shared[REGISTRY] = (file, name, run) => {
      const nth = this.#registered.filter(({ id }) => id.startsWith(`${file} `)).length
      this.#registered.push({ id: `${file} ${nth} ${name}`, name, run })
    }
    this.#hook()
  }

  /** All of them, the first time; later those the changed file reaches, from separate modules. */
  async load(): Promise<Registered[]> {
    this.#loads += 1
    this.#registered = []
    for (const file of this.#files) await import(this.#urlOf(file))
    return this.#registered
  }

  /** Test files find a `tap` that keeps their tests; every file of the project is that of its load. */
  #hook(): void {
    registerHooks({
      resolve: (specifier, context, next) => {
        if (specifier === 'tap') return { url: tapFor(context.parentURL ?? ''), shortCircuit: true }
        const found = next(specifier, context)
        const file = found.url.startsWith('file:') && this.#fileOf(found.url)
        const isOurs = file && !file.startsWith('..') && !file.includes('node_modules/')
        return isOurs ? { ...found, url: this.#urlOf(file) } : found
      },
    })
  }

  #fileOf(url: string): string {
    return relative(this.#root, fileURLToPath(url))
  }

  #urlOf(file: string): string {
    const load = this.#reached.has(file) ? this.#loads : 1
    return `${pathToFileURL(join(this.#root, file)).href}?load=${load}`
  }
}

function tapFor(parent: string): string {
  const text = `const keep = globalThis[Symbol.for('vec-operator.tests')]
export default { test: (name, ...rest) => keep(${JSON.stringify(parent.split('?')[0])}, name, rest.at(-1)) }`
  return `data:text/javascript,${encodeURIComponent(text)}`
}
