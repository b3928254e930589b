/** What runs in the pods of the embedded world: which container is what, and how the kubelet holds it. */
import { program } from '../../program.ts'
import type { Clock } from '../clock.ts'
import type { EngineRuns } from './engine-container.ts'
import { isJobContainer, startJobContainer } from './job-container.ts'
import type { Container, Pod } from './objects.ts'
import { NotStartable, type Sandbox } from './sandbox.ts'

/** A container that runs. */
export interface Running {
  log(): string
  /** Where a port of the container is on this machine. */
  port(port: number): number | undefined
  /** Asks it to end. */
  stop(): void
  /** Kills it without a grace period. */
  kill(): void
  setReady(ready: boolean): void
  /** Its exit code, once it has ended. */
  ended: Promise<number>
}

export interface ContainerOptions {
  server: string
  /** For every pod; `tokenOf` has the ones of their accounts. */
  token: string
  tokenOf?: (pod: Pod) => string
  /** Folder of the `helm` the Jobs find. */
  helm: string
  /** Environment that every Job process gets in addition to its own. */
  env: Record<string, string>
  clock: Clock
  engines: EngineRuns
}

export interface Containers {
  start(pod: Pod, container: Container, sandbox: Sandbox): Promise<Running>
}

/** Only our own image and the engine's can be pulled here. */
const OUR_IMAGE = /(^|\/)vec-operator:/
const ENGINE_IMAGE = /(^|\/)qdrant:v\d/

export function containers(options: ContainerOptions): Containers {
  const { server, helm, env, clock, engines } = options
  return {
    async start(pod, container, sandbox) {
      if (OUR_IMAGE.test(container.image) && isJobContainer(container)) {
        const app = await program()
        const offsetMs = clock.now().getTime() - Date.now()
        const token = options.tokenOf?.(pod) ?? options.token
        return startJobContainer(container, sandbox, { app, server, token, helm, offsetMs, env })
      }
      if (ENGINE_IMAGE.test(container.image)) return engines.start(pod, container, sandbox)
      throw new NotStartable('ErrImagePull', `failed to pull image "${container.image}": not found`)
    },
  }
}
