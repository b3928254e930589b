/** Runs pods on the simulated machine: Jobs through their real entry point, and nodes of the engine double. */
import { systemClock } from '../../jobs/clock.ts'
import { jobLog } from '../../jobs/log.ts'
import { main } from '../../jobs/main.ts'
import {
  containers,
  type ContainerOptions,
  type Containers,
  type Running,
} from '../world/controllers/containers.ts'
import { environment, isJobContainer } from '../world/controllers/job-container.ts'
import type { Container, Pod } from '../world/controllers/objects.ts'
import type { Sandbox } from '../world/controllers/sandbox.ts'
import { SimulatedProcess } from './machine/process.ts'

/** The exit code of a process that SIGKILL ended. */
const KILLED = 137

/** A running Job: its pod and its process. */
export interface JobRun {
  pod: Pod
  process: SimulatedProcess
}

export function simulatedPods(options: ContainerOptions, jobs: Set<JobRun>): Containers {
  const others = containers(options)
  return {
    async start(pod, container, sandbox) {
      if (isJobContainer(container)) return startJob({ pod, container, sandbox }, options, jobs)
      return new SimulatedProcess('engine').run(() => others.start(pod, container, sandbox))
    },
  }
}

interface JobContainer {
  pod: Pod
  container: Container
  sandbox: Sandbox
}

function startJob(
  { pod, container, sandbox }: JobContainer,
  { server, token, helm, env: given }: ContainerOptions,
  jobs: Set<JobRun>,
): Running {
  const process = new SimulatedProcess('job')
  const stop = new AbortController()
  const ended = Promise.withResolvers<number>()
  const output: string[] = []
  const env = environment(sandbox, { server, token, helm, env: given, offsetMs: 0 })
  const run = { pod, process }
  jobs.add(run)
  process.onKill(() => {
    jobs.delete(run)
    ended.resolve(KILLED)
  })
  const [, ...args] = container.args ?? []
  const code = process.run(() =>
    main({
      arguments: args,
      env,
      log: jobLog(env, { write: (line) => output.push(line) }),
      time: systemClock,
      signal: stop.signal,
    }),
  )
  void code.then((exitCode) => {
    // The connections of the process close when it is killed.
    ended.resolve(process.alive ? exitCode : KILLED)
    process.kill()
  })
  return {
    log: () => output.join(''),
    port: () => undefined,
    stop: () => stop.abort(new Error('SIGTERM')),
    kill: () => process.kill(),
    setReady: () => undefined,
    ended: ended.promise,
  }
}
