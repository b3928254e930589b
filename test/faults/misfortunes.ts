/** Faults of whole parts of the world: a part is killed, disconnected, delayed or replaced. */
import type { OperatorProcess } from '../world/operator.ts'
import { outside, type SimulatedProcess } from './machine/process.ts'
import { NAMESPACE } from './resources.ts'
import type { FaultWorld } from './world.ts'

/** Kills the hook service or the loop, and restarts it after `seconds`. */
export function strikeDown(world: FaultWorld, part: OperatorProcess, seconds: number): void {
  world.kill(part)
  after(world, seconds, () => void world.revive(part))
}

/** Delays the watch events of the loop by `seconds`. */
export function lag(world: FaultWorld, seconds: number): void {
  after(world, seconds, world.doors.watches.hold())
}

/** Drains the node of a Job's pod: the pod is deleted. */
export function drain(world: FaultWorld, job: SimulatedProcess): void {
  const run = [...world.jobs].find(({ process }) => process === job)
  if (run === undefined) return
  const { namespace = '', name } = run.pod.metadata
  const { resources } = world.api
  after(world, 0, () => {
    const pod = resources.kinds.of('v1', 'Pod')
    if (resources.find(pod, namespace, name)) resources.delete(pod, { namespace, name })
  })
}

/** Kills the engine node that a proxy path of the API server addresses. */
export function killEngine(world: FaultWorld, path: string): void {
  const [, namespace = '', name = ''] = /\/namespaces\/([^/]+)\/pods\/\w+:([^:]+):/.exec(path) ?? []
  after(world, 0, () => world.controllers.kubelet.kill(namespace, name))
}

export function bucketDown({ machine, ...world }: FaultWorld, seconds: number): void {
  machine.network.cutOff('bucket', true)
  after(world, seconds, () => machine.network.cutOff('bucket', false))
}

/** Upgrades the operator to the next release. */
export function upgrade(world: FaultWorld): void {
  after(world, 0, () => void world.operator.upgrade('0.2.0'))
}

export function deleteNamespace({ api: { resources }, ...world }: FaultWorld): void {
  after(world, 0, () => {
    const namespaces = resources.kinds.of('v1', 'Namespace')
    const at = { namespace: '', name: NAMESPACE }
    if (resources.find(namespaces, '', NAMESPACE)) resources.delete(namespaces, at)
  })
}

export function restartControllers(world: FaultWorld): void {
  after(world, 0, () => world.controllers.restart())
}

function after({ clock }: Pick<FaultWorld, 'clock'>, seconds: number, run: () => void): void {
  outside(() => clock.setTimeout(run, seconds * 1000))
}
