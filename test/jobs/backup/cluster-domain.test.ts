/** The names that a Job calls are in the DNS domain that the service wrote into its environment. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { JOB_ENV, encodePlan } from '../../../crds/contract/job.ts'
import { CLI } from '../job-fixture.ts'
import { backupFixture } from './fixture.ts'

const NAMES = fileURLToPath(new URL('../../doubles/loopback-names.ts', import.meta.url))

for (const [what, domain, expected] of [
  ['the domain of the service', 'k8s.test', 'k8s.test'],
  ['cluster.local in Jobs of an earlier release', undefined, 'cluster.local'],
] as const) {
  t.test(`pods of the engine are called in ${what}`, async (t) => {
    const { world } = await backupFixture(t)
    const child = spawn(process.execPath, ['--import', NAMES, CLI, 'backup', 'run', 'ns/b'], {
      env: {
        ...world.env,
        VEC_ENGINE_ROUTE: 'direct',
        LOG_FORMAT: 'text',
        LOG_LEVEL: 'DEBUG',
        [JOB_ENV.plan]: encodePlan(world.plan, 'spec'),
        ...(domain !== undefined && { [JOB_ENV.clusterDomain]: domain }),
      },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    let log = ''
    for await (const line of createInterface({ input: child.stdout })) {
      log += `${line}\n`
      if (line.includes('.svc.')) break
    }
    t.match(log, `http://vec-a-0.vec-a-headless.ns.svc.${expected}:6333`)
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'close')
  })
}
