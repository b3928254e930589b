/** Entry of the helm stand-in: the API server of VEC_API_*, and an end as helm ends. */
import { readFileSync } from 'node:fs'
import { ApiClient } from '../../world/client.ts'
import { helm } from './command-line.ts'
import { terminate } from './settings.ts'

process.once('SIGTERM', () => {
  terminate()
  process.stdout.write('The release has been cancelled.\n')
})

function client(): ApiClient {
  const { VEC_API_SERVER = '', VEC_API_TOKEN_FILE, VEC_API_CA_FILE } = process.env
  return new ApiClient({
    server: VEC_API_SERVER,
    ...(VEC_API_TOKEN_FILE && { token: readFileSync(VEC_API_TOKEN_FILE, 'utf8').trim() }),
    ...(VEC_API_CA_FILE && { ca: readFileSync(VEC_API_CA_FILE, 'utf8') }),
  })
}

try {
  process.stdout.write(`${await helm(process.argv.slice(2), client(), process.stdin)}\n`)
  process.exit(0)
} catch (error) {
  process.stderr.write(`Error: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exit(1)
}
