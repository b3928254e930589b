/** Where data lies: the default StorageClass of the cluster, and an S3 server for backups. */
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import { kubeconfigFile } from './control-plane.ts'
import { NODE_ADDRESS } from './network.ts'
import { portAnswers, run, waitFor } from './process.ts'
import type { ApiClient, ApiObject } from '../world/client.ts'
import type { Ground, S3 } from './state.ts'
import type { Tools } from './tools.ts'

const S3_PORT = 7070
/** Built into the controller manager. */
const VOLUMES = '/tmp/hostpath_pv'

export function volumesOnHost(): string[] {
  return existsSync(VOLUMES) ? readdirSync(VOLUMES) : []
}

export function removeVolumes(before: readonly string[]): void {
  for (const name of volumesOnHost()) {
    if (!before.includes(name)) rmSync(join(VOLUMES, name), { recursive: true, force: true })
  }
  if (existsSync(VOLUMES) && volumesOnHost().length === 0) rmSync(VOLUMES, { recursive: true })
}

/** The provisioner makes a directory per volume; it cannot make one larger. */
export async function createStorageClass(ground: Ground, tools: Tools): Promise<void> {
  const storageClass = {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: {
      name: 'host-path',
      annotations: { 'storageclass.kubernetes.io/is-default-class': 'true' },
    },
    provisioner: 'kubernetes.io/host-path',
    reclaimPolicy: 'Delete',
    volumeBindingMode: 'Immediate',
  }
  await run(tools.kubectl, ['--kubeconfig', kubeconfigFile(ground), 'create', '-f', '-'], {
    input: JSON.stringify(storageClass),
  })
}

/**
 * The resizer of a CSI driver: volumes and claims get the capacity that the claims request, and claims the
 * VolumeAttributesClass, which the API server allows on volumes of CSI drivers only. The directory behind a
 * volume has no size, so there is no file system to grow.
 */
export async function resizeVolumes(api: ApiClient, namespace: string): Promise<void> {
  const kind = { apiVersion: 'v1', kind: 'PersistentVolumeClaim' }
  const { items } = await api.list(kind.apiVersion, kind.kind, { namespace })
  for (const { metadata, spec, status } of items as (ApiObject & Claim)[]) {
    const { requests } = spec.resources
    const { volumeAttributesClassName } = spec
    if (status?.phase !== 'Bound' || status.capacity?.storage === requests.storage) continue
    const volume = {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      namespace: '',
      name: spec.volumeName,
    }
    await api.patch(volume, { spec: { capacity: requests } })
    const claim = { ...kind, namespace, name: metadata.name }
    const changed = {
      capacity: requests,
      currentVolumeAttributesClassName: volumeAttributesClassName,
    }
    await api.patch(claim, { status: changed }, { subresource: 'status' })
  }
}

interface Claim {
  spec: {
    volumeName: string
    volumeAttributesClassName?: string
    resources: { requests: { storage: string } }
  }
  status?: { phase?: string; capacity?: { storage: string } }
}

export async function startS3(ground: Ground, tools: Tools): Promise<S3> {
  const accessKeyId = `vec${randomBytes(8).toString('hex')}`
  const secretAccessKey = randomBytes(20).toString('hex')
  const root = ground.path('s3')
  mkdirSync(root)
  const server = ground.start({
    name: 's3',
    command: tools.versitygw,
    args: ['--port', `${NODE_ADDRESS}:${S3_PORT}`, 'posix', root],
    env: { ROOT_ACCESS_KEY_ID: accessKeyId, ROOT_SECRET_ACCESS_KEY: secretAccessKey },
  })
  await waitFor('the S3 server', () => portAnswers(NODE_ADDRESS, S3_PORT), { process: server })
  return { endpoint: `http://${NODE_ADDRESS}:${S3_PORT}`, accessKeyId, secretAccessKey }
}
