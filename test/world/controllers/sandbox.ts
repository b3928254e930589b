/** The file system of a pod in the embedded world: a folder below which its volumes are mounted, and its environment. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { recordAt, valueAt } from '../api/json.ts'
import type { Resources } from '../api/resources.ts'
import type { ApiObject } from '../client.ts'
import type { Container, EnvVar, Pod } from './objects.ts'

/** Why a pod cannot start yet; the kubelet shows it and tries again. It has a message only where the kubelet gives one. */
export class NotStartable extends Error {
  readonly reason: string

  constructor(reason: string, message?: string) {
    super(message)
    this.reason = reason
  }
}

/** While volumes are mounted. What is missing is in an Event only. */
export const CREATING = 'ContainerCreating'
const CONFIG_ERROR = 'CreateContainerConfigError'

type Volume = NonNullable<Pod['spec']['volumes']>[number]

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'

export class Sandbox {
  readonly root: string
  readonly #resources: Resources
  readonly #pod: Pod
  readonly #container: Container

  /** Throws NotStartable while something the pod mounts or reads is missing. */
  constructor(resources: Resources, pod: Pod, container: Container) {
    this.#resources = resources
    this.#pod = pod
    this.#container = container
    this.root = mkdtempSync(join(tmpdir(), 'vec-pod-'))
    try {
      this.refresh(true)
    } catch (error) {
      this.remove()
      throw error
    }
  }

  /** Where a path of the container is on this machine. */
  path(path: string): string {
    return join(this.root, path)
  }

  mountToken(token: string): string {
    const file = this.path(`${ACCOUNT}/token`)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, token)
    return file
  }

  /** Updates mounted Secrets and ConfigMaps. A file mounted with subPath stays as it was at the start. */
  refresh(first = false): void {
    for (const { name, mountPath, subPath } of this.#container.volumeMounts ?? []) {
      const volume = this.#pod.spec.volumes?.find((volume) => volume.name === name)
      const files = volume === undefined ? {} : this.#filesOf(volume)
      if (subPath === undefined) this.#write(mountPath, files)
      else if (first) this.#writeOne(mountPath, files[subPath])
    }
  }

  /** Environment of the container; values that are paths of a mount point into the sandbox. */
  environment(): Record<string, string> {
    const mounts = (this.#container.volumeMounts ?? []).map(({ mountPath }) => mountPath)
    return Object.fromEntries(
      (this.#container.env ?? []).flatMap((variable) => {
        const value = this.#valueOf(variable)
        if (value === undefined) return []
        const mounted = mounts.some((mount) => value === mount || value.startsWith(`${mount}/`))
        return [[variable.name, mounted ? this.path(value) : value] as const]
      }),
    )
  }

  remove(): void {
    rmSync(this.root, { recursive: true, force: true })
  }

  #write(mountPath: string, files: Record<string, Buffer>): void {
    mkdirSync(this.path(mountPath), { recursive: true })
    for (const [file, content] of Object.entries(files)) {
      const path = this.path(join(mountPath, file))
      // At once, as the kubelet does it: a process that reads meanwhile sees the old or the new.
      writeFileSync(`${path}.new`, content)
      renameSync(`${path}.new`, path)
    }
  }

  /** A missing source becomes an empty folder, as the container runtime creates it. */
  #writeOne(mountPath: string, content: Buffer | undefined): void {
    const path = this.path(mountPath)
    mkdirSync(content === undefined ? path : dirname(path), { recursive: true })
    if (content !== undefined) writeFileSync(path, content)
  }

  #filesOf({ secret, configMap }: Volume): Record<string, Buffer> {
    if (secret !== undefined) {
      const { secretName, optional, items } = secret
      const found = this.#read('Secret', secretName)
      if (found === undefined && optional !== true) throw new NotStartable(CREATING)
      return selected(contents(recordAt(found, 'data'), 'base64'), items)
    }
    if (configMap === undefined) return {}
    const { name, optional, items } = configMap
    const found = this.#read('ConfigMap', name)
    if (found === undefined && optional !== true) throw new NotStartable(CREATING)
    return selected(contents(recordAt(found, 'data'), 'utf8'), items)
  }

  #read(kind: string, name: string): ApiObject | undefined {
    const { namespace = '' } = this.#pod.metadata
    return this.#resources.find(this.#resources.kinds.of('v1', kind), namespace, name)
  }

  /** Undefined if an optional key does not exist: the container then has no such variable. */
  #valueOf({ value, valueFrom }: EnvVar): string | undefined {
    if (valueFrom?.fieldRef !== undefined) return fieldOf(this.#pod, valueFrom.fieldRef.fieldPath)
    if (valueFrom?.secretKeyRef === undefined) return value ?? ''
    const { name: secret, key, optional } = valueFrom.secretKeyRef
    const object = this.#read('Secret', secret)
    const found = recordAt(object, 'data')[key]
    if (typeof found === 'string') return Buffer.from(found, 'base64').toString()
    if (optional === true) return undefined
    const { namespace = '' } = this.#pod.metadata
    throw new NotStartable(
      CONFIG_ERROR,
      object === undefined
        ? `secret "${secret}" not found`
        : `couldn't find key ${key} in Secret ${namespace}/${secret}`,
    )
  }
}

function contents(data: Record<string, unknown>, encoding: BufferEncoding): Record<string, Buffer> {
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(String(value), encoding)]),
  )
}

/** With `items` only these keys, at their paths; a key that is missing is treated as optional. */
function selected(
  files: Record<string, Buffer>,
  items: { key: string; path: string }[] | undefined,
): Record<string, Buffer> {
  if (items === undefined) return files
  return Object.fromEntries(
    items.flatMap(({ key, path }) => (files[key] === undefined ? [] : [[path, files[key]]])),
  )
}

/** The downward API: `metadata.uid`, `metadata.labels['key']`, `spec.nodeName`. */
function fieldOf(pod: Pod, path: string): string {
  const [, map, key] = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path) ?? []
  const value =
    map === undefined || key === undefined
      ? valueAt(pod, path)
      : recordAt(pod, `metadata.${map}`)[key]
  return typeof value === 'string' ? value : ''
}
