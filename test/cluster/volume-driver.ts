/**
 * Volumes that have a size, become full and can grow: a CSI driver of our own (tools/csi-driver), with the
 * provisioner and the resizer that every driver uses. A machine on which they cannot be built, or that has no
 * loop devices, gets a cluster without them.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { VOLUME_DRIVER } from '../scenarios/expandable.ts'
import { kubeconfigFile } from './control-plane.ts'
import { NODE_NAME } from './node.ts'
import { program } from './packages.ts'
import { run, waitFor } from './process.ts'
import type { Ground } from './state.ts'
import { prepareVolumeTools, type Log, type Tools, type VolumeTools } from './tools.ts'

/** The programs, or why this machine cannot have such volumes. */
export type VolumeDriver = { tools: VolumeTools } | { missing: string }

export async function prepareVolumeDriver(log: Log): Promise<VolumeDriver> {
  try {
    await tryFileSystem()
    return { tools: await prepareVolumeTools(log) }
  } catch (error) {
    const missing = error instanceof Error ? error.message : String(error)
    return {
      missing: missing
        .trim()
        .replaceAll(/\s*\n\s*/g, ': ')
        .slice(0, MAX_REASON),
    }
  }
}

/** The line in which a run names it. */
export function describeVolumes(driver: VolumeDriver): string {
  const what = 'volumes that can grow'
  return 'missing' in driver
    ? `${what}: none: ${driver.missing}`
    : `${what}: XFS on loop devices, by a CSI driver`
}

const MAX_REASON = 400
const MIB = 2 ** 20
/** The least size of an XFS file system, and one to grow it to. */
const [SMALL, LARGE] = [300 * MIB, 304 * MIB]

/** Throws unless a file system on a loop device can be made here, mounted and enlarged. */
async function tryFileSystem(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-volume-'))
  const [image, point] = [join(folder, 'image'), join(folder, 'mounted')]
  try {
    mkdirSync(point)
    writeFileSync(image, '')
    truncateSync(image, SMALL)
    const [find, show] = ['--find', '--show']
    const device = (await run(program('losetup'), [find, show, image])).trim()
    await run(program('mkfs.xfs'), ['-q', device])
    await run(program('mount'), ['-t', 'xfs', device, point])
    truncateSync(image, LARGE)
    await run(program('losetup'), ['--set-capacity', device])
    await run(program('xfs_growfs'), [point])
  } finally {
    if (isMounted(point)) await run(program('umount'), [point])
    await detachLoopDevices(folder)
    rmSync(folder, { recursive: true })
  }
}

function isMounted(point: string): boolean {
  return readFileSync('/proc/self/mounts', 'utf8').includes(` ${point} `)
}

/** Starts the driver and its sidecars; none is waited for, the first volume shows that they work. */
export async function startVolumeDriver(
  ground: Ground,
  { kubectl }: Pick<Tools, 'kubectl'>,
  driver: VolumeDriver,
): Promise<void> {
  if ('missing' in driver) return
  const { tools } = driver
  const [socket, images] = [ground.path('csi/socket'), ground.path('csi/images')]
  const plugins = ground.path('kubelet/plugins_registry')
  for (const folder of [images, plugins]) mkdirSync(folder, { recursive: true })
  ground.start({
    name: 'csi-driver',
    command: tools['csi-driver'],
    args: [
      `--name=${VOLUME_DRIVER}`,
      `--node=${NODE_NAME}`,
      `--images=${images}`,
      `--socket=${socket}`,
      `--registration=${join(plugins, `${VOLUME_DRIVER}.sock`)}`,
    ],
  })
  const kubeconfig = kubeconfigFile(ground)
  const common = [`--csi-address=${socket}`, `--kubeconfig=${kubeconfig}`]
  // The limits that clients have by default make ten scenarios wait for each other.
  const limits = ['--kube-api-qps=100', '--kube-api-burst=200', '--retry-interval-max=10s']
  const sidecar = (name: 'csi-provisioner' | 'csi-resizer', ...args: string[]) =>
    ground.start({ name, command: tools[name], args: [...common, ...limits, ...args] })
  sidecar('csi-provisioner', '--timeout=60s')
  sidecar('csi-resizer', '--timeout=60s')
  await run(kubectl, ['--kubeconfig', kubeconfig, 'create', '-f', '-'], {
    input: JSON.stringify(DRIVER_OBJECT),
  })
}

/** The kubelet gives the files of a volume to the group of its pod; nothing is attached to a node. */
const DRIVER_OBJECT = {
  apiVersion: 'storage.k8s.io/v1',
  kind: 'CSIDriver',
  metadata: { name: VOLUME_DRIVER },
  spec: { attachRequired: false, fsGroupPolicy: 'File', volumeLifecycleModes: ['Persistent'] },
}

/** Frees the loop devices of files below a directory; answers once they are free. */
export async function detachLoopDevices(directory: string): Promise<void> {
  if (!existsSync('/dev/loop-control')) return
  for (const device of await loopDevices(directory)) {
    await run(program('losetup'), ['--detach', device])
  }
  // A device whose file system is still in use is freed by the kernel later.
  const isFree = async () => (await loopDevices(directory)).length === 0
  await waitFor(`the loop devices of ${directory} to be free`, isFree)
}

async function loopDevices(directory: string): Promise<string[]> {
  const columns = ['--list', '--noheadings', '--raw', '--output', 'NAME,BACK-FILE']
  const listed = await run(program('losetup'), columns)
  return listed.split('\n').flatMap((line) => {
    const [device = '', file = ''] = line.split(' ')
    return file.startsWith(`${directory}/`) ? [device] : []
  })
}
