/** Entry of the helm stand-in: the arguments of helm 3, the API server of VEC_API_*, values on standard input. */
import { readFileSync } from 'node:fs'
import { text } from 'node:stream/consumers'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { ApiClient } from '../../world/client.ts'
import { status, uninstall, upgrade } from './commands.ts'

const { positionals, values: flags } = parseArgs({
  allowPositionals: true,
  options: {
    install: { type: 'boolean', default: false },
    repo: { type: 'string', default: '' },
    version: { type: 'string', default: '' },
    namespace: { type: 'string', default: 'default' },
    'create-namespace': { type: 'boolean', default: false },
    timeout: { type: 'string' },
    values: { type: 'string' },
    wait: { type: 'boolean', default: false },
    output: { type: 'string', short: 'o' },
  },
})

async function run(): Promise<string> {
  const [command = '', release = '', chart = ''] = positionals
  const { namespace, wait } = flags
  switch (command) {
    case 'upgrade':
      return upgrade(client(), {
        release,
        chart,
        repository: flags.repo,
        version: flags.version,
        namespace,
        createNamespace: flags['create-namespace'],
        values: await readValues(),
      })
    case 'uninstall':
      return uninstall(client(), { release, namespace, wait })
    case 'status':
      return status(client(), { release, namespace })
    default:
      throw new Error(`unknown command "${command}" for "helm"`)
  }
}

function client(): ApiClient {
  const { VEC_API_SERVER = '', VEC_API_TOKEN_FILE, VEC_API_CA_FILE } = process.env
  return new ApiClient({
    server: VEC_API_SERVER,
    ...(VEC_API_TOKEN_FILE && { token: readFileSync(VEC_API_TOKEN_FILE, 'utf8').trim() }),
    ...(VEC_API_CA_FILE && { ca: readFileSync(VEC_API_CA_FILE, 'utf8') }),
  })
}

async function readValues(): Promise<object> {
  return flags.values === '-' ? (parse(await text(process.stdin)) as object) : {}
}

try {
  process.stdout.write(`${await run()}\n`)
  process.exit(0)
} catch (error) {
  process.stderr.write(`Error: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
