/** Every package in package.json is used: dependencies by the product, devDependencies by tests and tools. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import ts from 'typescript'

const ROOT = join(import.meta.dirname, '../..')
const PRODUCT = '{crds,hooks,jobs,metacontroller}/**/*.ts'
const TOOLS = ['test/**/*.ts', '.ci/*.js', '.ci/{check-words,supply-chain}']

interface Manifest {
  dependencies: Record<string, string>
  devDependencies: Record<string, string>
  scripts: Record<string, string>
}

const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const manifest = JSON.parse(text('package.json')) as Manifest
const imports = { product: packagesIn([PRODUCT]), tools: packagesIn(TOOLS) }

t.test('a dependency in package.json that nothing imports fails', async (t) => {
  t.strictSame(unused(manifest), [])
})

t.test(
  'a made-up package, a dependency of tests only and a tool without a script fail',
  async (t) => {
    const more = (added: Partial<Manifest>) => unused({ ...manifest, ...added })
    const { dependencies, devDependencies, scripts } = manifest
    t.strictSame(more({ dependencies: { ...dependencies, 'made-up': '1.0.0' } }), ['made-up'])
    t.strictSame(more({ dependencies: { ...dependencies, 'fast-check': '1.0.0' } }), ['fast-check'])
    for (const unused of ['@made/up', '@types/made-up']) {
      t.strictSame(more({ devDependencies: { ...devDependencies, [unused]: '1.0.0' } }), [unused])
    }
    const { lint = '', ...others } = scripts
    t.match(lint, 'oxlint')
    t.strictSame(
      more({ scripts: others }),
      ['oxlint', 'oxlint-tsgolint'],
      'a tool without its script',
    )
  },
)

/** Packages that the code imports. A comment or a string with the name of a package is not an import. */
function packagesIn(patterns: string[]): Set<string> {
  const names = globSync(patterns, { cwd: ROOT }).flatMap((file) =>
    ts.preProcessFile(text(file), true, true).importedFiles.map(({ fileName }) => fileName),
  )
  return new Set(names.map((name) => /^(@[^/]+\/)?[^/]+/.exec(name)?.[0] ?? name))
}

function unused({ dependencies, devDependencies, scripts }: Manifest): string[] {
  const used = Object.keys(devDependencies).filter((name) => isTool(name, Object.values(scripts)))
  const peers = new Set(used.flatMap(peersOf))
  return [
    ...Object.keys(dependencies).filter((name) => !imports.product.has(name)),
    ...Object.keys(devDependencies).filter((name) => !used.includes(name) && !peers.has(name)),
  ].toSorted()
}

/** Whether tests or tools import the package, a script runs its command, or a configuration names it. */
function isTool(name: string, scripts: string[]): boolean {
  const types = /^@types\/(.*)/.exec(name)?.[1]
  if (types !== undefined) {
    const isTyped = imports.product.has(types) || imports.tools.has(types)
    return isTyped || compilerTypes().includes(types)
  }
  return (
    imports.tools.has(name) ||
    commandsOf(name).some((command) => scripts.some((script) => runs(script, command))) ||
    text('.ci/stryker.config.json').includes(`node_modules/${name}/`)
  )
}

function compilerTypes(): string[] {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.json'), (path) =>
    ts.sys.readFile(path),
  ) as {
    config: { compilerOptions: { types: string[] } }
  }
  return config.compilerOptions.types
}

function runs(script: string, command: string): boolean {
  return script.split(/&&/).some((part) => part.trim().split(' ')[0] === command)
}

/** A package that is not installed has no commands and no peers. */
function installed(name: string): { bin?: string | object; peerDependencies?: object } {
  const [path] = globSync(`node_modules/${name}/package.json`, { cwd: ROOT })
  return path === undefined ? {} : (JSON.parse(text(path)) as object)
}

function commandsOf(name: string): string[] {
  const { bin = {} } = installed(name)
  return typeof bin === 'string' ? [name] : Object.keys(bin)
}

function peersOf(name: string): string[] {
  return Object.keys(installed(name).peerDependencies ?? {})
}
