/**
 * Takes a cluster down to the last trace, from its state file alone: after a good run, after a
 * failure in the middle of a start, and for a run that was killed.
 */
import { existsSync, lstatSync, readdirSync, readlinkSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import { closeNetwork, NETWORK_NAME } from './network.ts'
import { endContainers, startContainerdAgain, unmountBelow } from './node.ts'
import { alive, marked, stopProcess } from './process.ts'
import type { Ground } from './state.ts'
import { removeVolumes } from './storage.ts'
import { detachLoopDevices } from './volume-driver.ts'

/** Small files that kubelet and the network plugins write to fixed paths, whatever their flags say. */
const KUBELET_LINKS = '/var/log/containers'
const DEVICE_PLUGINS = '/var/lib/kubelet/device-plugins'
const CONTROL_GROUPS = '/sys/fs/cgroup'
const NETWORK_RESULTS = '/var/lib/cni/results'

/** Continues after a failed step, so that one failure leaves one thing behind and not everything. */
export async function cleanUp(ground: Ground): Promise<void> {
  ground.close()
  const failures: unknown[] = []
  const step = async (work: () => Promise<void> | void) => {
    try {
      await work()
    } catch (error) {
      failures.push(error)
    }
  }

  for (const record of ground.state.processes.toReversed()) {
    if (record.name === 'containerd') await step(() => endContainersOf(ground))
    await step(() => stopProcess(record))
  }
  await step(() => endLostProcesses(ground.directory))
  await step(() => unmountBelow(ground.directory))
  await step(() => detachLoopDevices(ground.directory))
  await step(() => closeNetwork(ground.state.before.networkNamespaces))
  await step(() => removeVolumes(ground.state.before.volumes))
  await step(() => removeTraces(ground.directory))

  if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join('\n'))
  rmSync(ground.directory, { recursive: true, force: true })
}

/** Containers outlive a containerd that was killed; only another one can end them properly. */
async function endContainersOf(ground: Ground): Promise<void> {
  const record = ground.find('containerd')
  if (alive(record)) return endContainers(ground)
  const recorded = new Set(ground.state.processes.map((other) => other.pid))
  if (marked(ground.directory).every(({ pid }) => recorded.has(pid))) return
  const again = await startContainerdAgain(ground, record)
  await endContainers(ground)
  await stopProcess(again)
}

async function endLostProcesses(directory: string): Promise<void> {
  await Promise.all(marked(directory).map((found) => stopProcess(found)))
}

function removeTraces(directory: string): void {
  for (const file of filesIn(KUBELET_LINKS)) {
    const ours = lstatSync(file).isSymbolicLink() && readlinkSync(file).startsWith(`${directory}/`)
    if (ours) rmSync(file)
  }
  // One result per network of a container; the loopback one bears the same container's id.
  const results = filesIn(NETWORK_RESULTS)
  const ours = results.flatMap(
    (file) => new RegExp(`/${NETWORK_NAME}-(\\w+)-`).exec(file)?.[1] ?? [],
  )
  for (const file of results) if (ours.some((id) => file.includes(id))) rmSync(file)
  // The kubelet listens there, whatever its root directory is.
  rmSync(join(DEVICE_PLUGINS, 'kubelet.sock'), { force: true })
  removeIfEmpty(DEVICE_PLUGINS)
  for (const hierarchy of [CONTROL_GROUPS, ...filesIn(CONTROL_GROUPS)]) {
    removeIfEmpty(join(hierarchy, 'k8s.io'))
  }
}

/** Shared with whatever else runs containers here, so never removed with something in it. */
function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // In use by another, or never there.
  }
}

function filesIn(folder: string): string[] {
  return existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []
}
