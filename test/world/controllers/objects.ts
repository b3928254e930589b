/** The built-in objects as the controllers see them: the fields that are read, and their owners. */
import { randomBytes } from 'node:crypto'
import type { Resources } from '../api/resources.ts'
import { controllerOf, type ApiMeta, type ApiObject } from '../client.ts'

export interface EnvVar {
  name: string
  value?: string
  valueFrom?: {
    fieldRef?: { fieldPath: string }
    secretKeyRef?: { name: string; key: string; optional?: boolean }
  }
}

export interface Container {
  name: string
  image: string
  command?: string[]
  args?: string[]
  env?: EnvVar[]
  volumeMounts?: { name: string; mountPath: string; subPath?: string }[]
  readinessProbe?: {
    httpGet?: { path?: string; port?: number | string; scheme?: string }
    initialDelaySeconds?: number
    periodSeconds?: number
    failureThreshold?: number
  }
}

export interface PodSpec {
  containers: Container[]
  restartPolicy?: string
  nodeName?: string
  serviceAccountName?: string
  terminationGracePeriodSeconds?: number
  automountServiceAccountToken?: boolean
  volumes?: {
    name: string
    secret?: { secretName: string; optional?: boolean; items?: { key: string; path: string }[] }
    configMap?: { name: string; optional?: boolean; items?: { key: string; path: string }[] }
    [source: string]: unknown
  }[]
}

export interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
  lastProbeTime?: string
  lastTransitionTime?: string
}

export interface ContainerStatus {
  name: string
  image: string
  ready: boolean
  restartCount: number
  state: {
    waiting?: { reason: string; message?: string }
    running?: { startedAt: string }
    terminated?: { exitCode: number; reason: string; finishedAt: string; signal?: number }
  }
}

export interface PodStatus {
  phase: 'Pending' | 'Running' | 'Succeeded' | 'Failed'
  podIP?: string
  startTime?: string
  conditions?: Condition[]
  containerStatuses?: ContainerStatus[]
}

export interface Template {
  metadata?: Pick<ApiMeta, 'labels' | 'annotations'>
  spec: PodSpec
}

export type Pod = ApiObject & { spec: PodSpec; status: PodStatus }

/** Pods whose controller has this uid. */
export function podsOf(resources: Resources, owner: ApiObject): Pod[] {
  const pods = resources.store.list(resources.kinds.of('v1', 'Pod'), owner.metadata.namespace)
  return (pods as Pod[]).filter((pod) => controllerOf(pod)?.uid === owner.metadata.uid)
}

export function isReady({ status }: Pod): boolean {
  return (
    status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
  )
}

export function hasEnded({ status }: Pod): boolean {
  return status.phase === 'Succeeded' || status.phase === 'Failed'
}

/** Five letters as Kubernetes appends them to a name. */
export function suffix(): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789'
  return [...randomBytes(5)].map((byte) => alphabet.charAt(byte % alphabet.length)).join('')
}
