/**
 * What a pod writes into the bucket for the pod that goes on after it decides what is deleted on a node
 * and what the manifest says. Others may write to the bucket too: so it carries a seal, which only pods
 * of this Job can make. The uid of the Job is in the Kubernetes API alone, never in the bucket.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Tools } from '../tools.ts'
import { canonical } from './canonical.ts'

type Sealer = { tools: Pick<Tools, 'job'> }

const Sealed = Type.Object({ seal: Type.String() })

/** For this key: what is copied to another one is not accepted there. */
export function sealed<Content extends object>(
  key: string,
  content: Content,
  { tools }: Sealer,
): Content & { seal: string } {
  return { ...content, seal: sealOf(key, content, tools.job) }
}

/** Whether a pod of this Job wrote it, under this key, as it is. */
export function isSealed(key: string, found: unknown, { tools }: Sealer): boolean {
  if (!Value.Check(Sealed, found)) return false
  const { seal, ...content } = found
  const [given, right] = [seal, sealOf(key, content, tools.job)].map((text) => Buffer.from(text))
  if (given === undefined || right === undefined) return false
  return given.length === right.length && timingSafeEqual(given, right)
}

function sealOf(key: string, content: object, job: string): string {
  return createHmac('sha256', job)
    .update(`${key}\n${canonical(content)}`)
    .digest('hex')
}
