/**
 * Generates chart/crds/, crds/README.md, docs/reasons.md and the JSON schemas of manifest.json from the
 * declarations in this folder, and docs/chart-values.md from the schema of the chart's values; with --check only
 * lists outdated files.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { NodeManifest, ShardManifest } from './contract/manifest.ts'
import { chartValuesPage } from './chart-values.ts'
import { customResourceDefinition, RESOURCES } from './crd.ts'
import { fieldReference } from './field-reference.ts'
import { reasonsPage } from './reasons/index.ts'

/** Root of the repository. */
export const repositoryRoot = new URL('../', import.meta.url)

/** Every generated file, by its path in the repository. */
export function generatedFiles(): Map<string, string> {
  const { version } = JSON.parse(text('package.json')) as { version: string }
  const files = RESOURCES.map(
    (resource) =>
      [
        `chart/crds/${resource.plural}.yaml`,
        GENERATED_NOTICE +
          stringify(customResourceDefinition(resource, version), { aliasDuplicateObjects: false }),
      ] as const,
  )
  return new Map([
    ...files,
    ['crds/README.md', fieldReference()],
    ['docs/reasons.md', reasonsPage()],
    [
      'docs/chart-values.md',
      chartValuesPage(text('chart/values.schema.json'), text('chart/values.yaml')),
    ],
    ...manifestSchemas(),
  ])
}

function text(path: string): string {
  return readFileSync(new URL(path, repositoryRoot), 'utf8')
}

/** JSON schema of each manifest version, for programs that read a bucket without this operator. */
function manifestSchemas(): (readonly [string, string])[] {
  return [NodeManifest, ShardManifest].map((schema) => {
    const { const: version } = schema.properties.manifestVersion
    const draft = { $schema: 'http://json-schema.org/draft-07/schema#', ...schema }
    return [`docs/manifest-v${version}.schema.json`, `${JSON.stringify(draft, null, 2)}\n`] as const
  })
}

const GENERATED_NOTICE = '# Generated from crds/ by `npm run generate`: do not edit.\n'

/** Writes the outdated generated files and lists them; with `check` only lists them. */
export function generate(folder: URL, { check = false } = {}): string[] {
  const outdatedFiles = [...generatedFiles()].filter(
    ([path, text]) => readIfPresent(folder, path) !== text,
  )
  if (!check) for (const [path, text] of outdatedFiles) writeFileSync(new URL(path, folder), text)
  return outdatedFiles.map(([path]) => path)
}

function readIfPresent(folder: URL, path: string): string | undefined {
  const file = new URL(path, folder)
  return existsSync(file) ? readFileSync(file, 'utf8') : undefined
}

if (import.meta.main) {
  const check = process.argv.includes('--check')
  /* c8 ignore next 4 -- only in an outdated checkout */
  for (const path of generate(repositoryRoot, { check })) {
    console.log(check ? `${path} is outdated: run npm run generate` : `${path} written`)
    process.exitCode = check ? 1 : 0
  }
}
