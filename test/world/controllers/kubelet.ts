/**
 * Scheduler and kubelet in one: starts what a pod asks for, reports its state in the status, runs the
 * readiness probe, and ends it when the pod is deleted.
 */
import { isDeleting } from '../client.ts'
import type { PodNode } from '../api/pods.ts'
import type { Resources } from '../api/resources.ts'
import type { Clock } from '../clock.ts'
import type { Containers } from './containers.ts'
import type { Pod } from './objects.ts'
import { PodRun } from './pod-run.ts'

export interface Kubelet extends PodNode {
  /** Something is being started, asked or ended; time need not pass for it to go on. */
  busy(): boolean
  /** Processes of Jobs that run: they need real time. */
  processes(): number
  /** When the last of them was started, in milliseconds since 1970 by the machine's clock. */
  startedAt(): number
  /** Ends the containers of a pod as a node that dies would. */
  kill(namespace: string, pod: string): boolean
  setReady(namespace: string, pod: string, ready: boolean): void
  /** Ends every container and removes every sandbox. */
  close(): Promise<void>
}

export function startKubelet(resources: Resources, clock: Clock, containers: Containers): Kubelet {
  const runs = new Map<string, PodRun>()
  const find = (namespace: string, name: string) =>
    [...runs.values()].find(
      ({ pod: { metadata } }) => metadata.namespace === namespace && metadata.name === name,
    )
  // Processes in groups of their own would outlive a world that ends without a word.
  const lastResort = () => {
    for (const run of runs.values()) run.kill()
  }
  process.once('exit', lastResort)
  const end = resources.store.subscribe(({ type, collection, object }) => {
    const { uid = '' } = object.metadata
    if (collection === '/secrets' || collection === '/configmaps') {
      for (const run of runs.values()) run.refresh()
    }
    if (collection !== '/pods') return
    if (type === 'ADDED') runs.set(uid, new PodRun(resources, clock, containers, object as Pod))
    else if (type === 'DELETED') {
      // A client that removes a pod by force leaves its containers to the node.
      void runs.get(uid)?.forget()
      runs.delete(uid)
    } else if (isDeleting(object)) runs.get(uid)?.terminate()
  })
  return {
    log: (namespace, pod) => find(namespace, pod)?.log(),
    port: (namespace, pod, port) => find(namespace, pod)?.port(port),
    busy: () => [...runs.values()].some((run) => run.busy),
    processes: () => [...runs.values()].filter((run) => run.isProcess).length,
    startedAt: () => Math.max(0, ...[...runs.values()].map((run) => run.realStart)),
    kill(namespace, pod) {
      const run = find(namespace, pod)
      run?.disrupt()
      return run !== undefined
    },
    setReady: (namespace, pod, ready) => find(namespace, pod)?.setReady(ready),
    async close() {
      process.off('exit', lastResort)
      end()
      await Promise.all([...runs.values()].map((run) => run.forget()))
    },
  }
}
