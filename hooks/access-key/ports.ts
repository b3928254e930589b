/** What the VecAccessKey room needs from outside; metacontroller/ports.ts implements it. */
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'

export interface AccessKeyPorts {
  /** A Secret, at most 60 s old; undefined when there is none. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** A Secret read live: one that is not ours is never touched. */
  liveSecret(namespace: string, name: string): Promise<Secret | undefined>
  /** Writes an Event; one that exists, or cannot be written, is fine. */
  writeEvent(event: KubernetesEvent): Promise<void>
}
