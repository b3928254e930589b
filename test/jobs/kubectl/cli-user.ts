/** A user at a terminal: a kubeconfig for the embedded API, and a run of the CLI in this process. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { main } from '../../../jobs/main.ts'
import { jobLog } from '../../../jobs/log.ts'
import type { EmbeddedApi } from '../../world/api/server.ts'
import { running } from '../../scenarios/scenario.ts'
import type { World } from '../../world/world.ts'
import { instantClock } from '../job-world.ts'

export interface CliOutput {
  code: number
  /** Standard output. */
  out: string
  /** Standard error. */
  err: string
}

/** Without a cluster: for commands that need none. Without an answer, there is no terminal. */
export async function runCommand(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  answer?: string,
): Promise<CliOutput> {
  let [out, err] = ['', '']
  const code = await main({
    arguments: [...args],
    env,
    log: jobLog({ LOG_LEVEL: 'INFO', LOG_FORMAT: 'text' }, { write: (line) => (err += line) }),
    time: instantClock(),
    signal: new AbortController().signal,
    print: (text) => (out += text),
    printError: (text) => (err += text),
    ask: async (question) => {
      if (answer !== undefined) err += question
      return answer
    },
  })
  return { code, out, err }
}

/** Waits for a VecCluster with an API key from a Secret of the user. */
export async function runningWithKey(
  world: World,
  { namespace, name, replicas = 1 }: { namespace: string; name: string; replicas?: number },
  key: string,
): Promise<void> {
  const secretRef = { name: 'own-key', key: 'key' }
  const metadata = { namespace, name: secretRef.name }
  await world.apply({ apiVersion: 'v1', kind: 'Secret', metadata, stringData: { key } })
  await running(world, namespace, name, { replicas, apiKey: { secretRef } })
}

/** A user whose kubeconfig names this API and a namespace. */
export function cliFor(t: Test, api: EmbeddedApi, namespace: string) {
  const file = join(t.testdir({}), 'kubeconfig')
  writeKubeconfig(file, api, namespace)
  return (...args: string[]) => runCommand(args, { KUBECONFIG: file })
}

/** The other context is `elsewhere`. */
export function writeKubeconfig(file: string, api: EmbeddedApi, namespace: string): void {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'here',
    contexts: [
      { name: 'here', context: { cluster: 'a', user: 'a', namespace } },
      { name: 'elsewhere', context: { cluster: 'a', user: 'a', namespace: 'elsewhere' } },
    ],
    // client-node takes plain HTTP only together with this.
    clusters: [{ name: 'a', cluster: { server: api.url, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'a', user: { token: api.token } }],
  }
  writeFileSync(file, JSON.stringify(config), { mode: 0o600 })
}
