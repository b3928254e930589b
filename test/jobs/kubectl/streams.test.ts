/** What commands for users write to standard output and standard error, also to a pipe. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { COMPILED } from '../../compiled.ts'
import { CLI } from '../job-fixture.ts'
import { runCommand } from './cli-user.ts'

const CLUSTERS = 2000

/** An API server whose list of VecClusters is larger than a pipe. */
async function manyClusters(t: Test): Promise<string> {
  const items = Array.from({ length: CLUSTERS }, (_, index) => ({
    metadata: { namespace: 'default', name: `c${index}`, uid: `u${index}` },
    spec: {},
    status: { phase: 'Running', conditions: [] },
  }))
  const server = createServer(({ url = '' }, response) => {
    const kind = url.includes('/vecclusters?') ? 'VecClusterList' : 'List'
    const list = { kind, apiVersion: API_VERSION, metadata: {} }
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ ...list, items: kind === 'List' ? [] : items }))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** Runs `status -o json` as a process with its output in a pipe to a command of the shell. */
async function pipedStatus(server: string, reader: string) {
  const command = `("${process.execPath}" "${CLI}" status -o json; echo "exit code $?" >&2) | ${reader}`
  const shell = spawn('sh', ['-c', command], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...COMPILED, PATH: process.env['PATH'], VEC_API_SERVER: server },
  })
  const [out, err] = await Promise.all([text(shell.stdout), text(shell.stderr)])
  return { out, err }
}

t.test('a result that does not fit into a pipe is complete for a slow reader', async (t) => {
  const { out, err } = await pipedStatus(await manyClusters(t), '(sleep 2; cat)')
  t.ok(out.length > 65_536)
  t.equal((JSON.parse(out) as object[]).length, CLUSTERS)
  t.equal(err, 'exit code 0\n')
})

t.test('a reader that ends early ends the command without a stack, and with code 1', async (t) => {
  const { out, err } = await pipedStatus(await manyClusters(t), '(sleep 2; head -c 3)')
  t.equal(out, '[\n ')
  t.equal(err, 'exit code 1\n')
})

t.test('what a command logs is on standard error', async (t) => {
  const env = { CLOUD_ACCESS_KEY_ID: 'a', CLOUD_SECRET_ACCESS_KEY: 'b' }
  const call = ['s3://bucket/backups', '--endpoint', 'http://127.0.0.1:1']
  for (const output of [[], ['-o', 'json']]) {
    const { code, out, err } = await runCommand(['backup', 'find', ...call, ...output], env)
    t.equal(code, EXIT_CODES.failure)
    t.equal(out, '')
    t.match(err, /WARNING retrying bucket call/)
    t.match(err, /vec-operator: LIST s3:\/\/bucket\/backups\/ got no answer/)
  }
})
