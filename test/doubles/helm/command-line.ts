/** The arguments of helm 3 and values on standard input, as calls on this helm. */
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import type { ApiClient } from '../../world/client.ts'
import { manifest, status, uninstall, upgrade } from './commands.ts'
import { updateRepository } from './repositories.ts'

function isGiven(argument: string | undefined): argument is string {
  return argument !== undefined
}

/** Returns helm's standard output; throws what helm writes to standard error. */
export async function helm(args: string[], api: ApiClient, input: Readable): Promise<string> {
  const { positionals, values: flags } = parseArgs({
    args,
    allowPositionals: true,
    options: {
      install: { type: 'boolean', default: false },
      repo: { type: 'string', default: '' },
      version: { type: 'string', default: '' },
      namespace: { type: 'string', default: 'default' },
      'create-namespace': { type: 'boolean', default: false },
      timeout: { type: 'string' },
      values: { type: 'string' },
      'post-renderer': { type: 'string' },
      'post-renderer-args': { type: 'string', multiple: true, default: [] },
      wait: { type: 'boolean', default: false },
      output: { type: 'string', short: 'o' },
    },
  })
  const [command = '', release = '', chart = ''] = positionals
  const { namespace, wait } = flags
  switch (command) {
    case 'upgrade':
      return upgrade(api, {
        release,
        chart,
        repository: flags.repo,
        version: flags.version,
        namespace,
        createNamespace: flags['create-namespace'],
        postRenderer: [flags['post-renderer'], ...flags['post-renderer-args']].filter(isGiven),
        values: flags.values === '-' ? (parse(await text(input)) as object) : {},
      })
    case 'uninstall':
      return uninstall(api, { release, namespace, wait })
    case 'status':
      return status(api, { release, namespace })
    case 'get':
      return manifest(api, { release: chart, namespace })
    case 'repo':
      return updateRepository(chart)
    default:
      throw new Error(`unknown command "${command}" for "helm"`)
  }
}
