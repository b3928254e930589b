/** Writes chart/crds/ and crds/README.md from the schemas; with --check it only says what differs. */
import { readFileSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { definitionOf } from './definition.ts'
import { reference } from './reference.ts'
import { RESOURCES } from './resources.ts'

const root = new URL('../', import.meta.url)

/** Every generated file, by its path in the repository. */
export function generatedFiles(): Map<string, string> {
  const { version } = JSON.parse(readFileSync(new URL('package.json', root), 'utf8')) as {
    version: string
  }
  const files = RESOURCES.map(
    (resource) =>
      [
        `chart/crds/${resource.plural}.yaml`,
        HEAD + stringify(definitionOf(resource, version), { aliasDuplicateObjects: false }),
      ] as const,
  )
  return new Map([...files, ['crds/README.md', reference()]])
}

const HEAD = '# Generated from crds/ by `npm run generate`: do not edit.\n'

/** Paths of the generated files that are missing or not as they should be. */
export function outdatedFiles(): string[] {
  return [...generatedFiles()]
    .filter(([path, text]) => current(path) !== text)
    .map(([path]) => path)
}

function current(path: string): string | undefined {
  try {
    return readFileSync(new URL(path, root), 'utf8')
  } catch {
    return undefined
  }
}

if (import.meta.main) {
  const outdated = outdatedFiles()
  if (process.argv.includes('--check')) {
    for (const path of outdated) console.error(`${path} is outdated: run npm run generate`)
    process.exitCode = outdated.length > 0 ? 1 : 0
  } else {
    const files = generatedFiles()
    for (const path of outdated) writeFileSync(new URL(path, root), files.get(path) ?? '')
  }
}
