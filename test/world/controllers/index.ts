/** The controllers of the embedded world and its one node, started together on the resources of the API. */
import type { EmbeddedApi } from '../api/server.ts'
import type { Clock } from '../clock.ts'
import type { Pod } from './objects.ts'
import { containers, type ContainerOptions, type Containers } from './containers.ts'
import { definitionController } from './definitions.ts'
import { EngineRuns } from './engine-container.ts'
import { garbageCollector } from './garbage.ts'
import { jobController } from './jobs.ts'
import { startKubelet, type Kubelet } from './kubelet.ts'
import { namespaceController } from './namespaces.ts'
import { run } from './queue.ts'
import { statefulSetController } from './stateful-sets.ts'
import { volumeResizer } from './volumes.ts'

export interface Controllers {
  kubelet: Kubelet
  engines: EngineRuns
  /** A sync is due now; delayed ones do not count. */
  busy(): boolean
  /** As when the controller-manager's process is replaced: pods run on, memory is lost. */
  restart(): void
  close(): Promise<void>
}

export interface ControllerOptions {
  api: EmbeddedApi
  clock: Clock
  /** Folder of the `helm` the Jobs find. */
  helm: string
  /** Environment that every Job process gets in addition to its own. */
  env?: Record<string, string>
  /** What runs in pods; default: engines in this process, Jobs as processes. */
  runs?: (options: ContainerOptions) => Containers
}

export function startControllers(options: ControllerOptions): Controllers {
  const { api, clock, helm, env = {} } = options
  const { resources, url: server, podToken: token } = api
  const tokenOf = ({ metadata, spec }: Pod) =>
    api.accountToken({ namespace: metadata.namespace ?? '', name: spec.serviceAccountName ?? '' })
  const engines = new EngineRuns(clock)
  const runs = (options.runs ?? containers)({
    ...{ server, token, tokenOf, helm, env, clock, engines },
  })
  const kubelet = startKubelet(resources, clock, runs)
  api.attach(kubelet)
  const start = () =>
    [
      garbageCollector(resources),
      definitionController(resources),
      namespaceController(resources),
      jobController(resources, clock),
      statefulSetController(resources),
      volumeResizer(resources),
    ].map((controller) => run(resources, clock, controller))
  let running = start()
  const stop = () => {
    for (const controller of running) controller.stop()
  }
  return {
    kubelet,
    engines,
    busy: () => kubelet.busy() || running.some((controller) => controller.busy()),
    restart() {
      stop()
      running = start()
    },
    async close() {
      stop()
      await kubelet.close()
    },
  }
}
