/**
 * Proves that this operator created a Job. A user who may create Jobs in a namespace can copy our
 * labels, and Metacontroller adopts the Job as a child; the signature cannot be made without the
 * key of the installation. It covers the identity of the Job, not its pods, which admission may
 * change.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Job } from '../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../crds/contract/names.ts'

export interface JobIdentity {
  namespace: string
  name: string
  /** Uid of the resource that the Job belongs to. */
  parentUid: string
}

/** Returns the hex HMAC-SHA256 with the first key; with the empty key if hooks need no token. */
export function signJob(job: JobIdentity, keys: readonly string[]): string {
  return hmac(job, keys[0] ?? '').toString('hex')
}

/** Whether the Job has a signature by one of the keys for exactly this Job. */
export function isSigned({ metadata }: Job, keys: readonly string[]): boolean {
  const actual = Buffer.from(metadata.annotations?.[ANNOTATIONS.signature] ?? '', 'hex')
  const identity = {
    namespace: metadata.namespace ?? '',
    name: metadata.name,
    parentUid: metadata.labels?.[LABELS.parent] ?? '',
  }
  return (keys.length === 0 ? [''] : keys).some((key) => {
    const expected = hmac(identity, key)
    return actual.length === expected.length && timingSafeEqual(actual, expected)
  })
}

function hmac({ namespace, name, parentUid }: JobIdentity, key: string): Buffer {
  const text = JSON.stringify(['vec-operator job', namespace, name, parentUid])
  return createHmac('sha256', key).update(text).digest()
}
