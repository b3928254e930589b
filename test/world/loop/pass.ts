/**
 * One pass over a parent: finalizer, claim, customize, hook, timer, children, status, in this order.
 * Whatever fails before the children leaves everything as it is.
 */
import { isDeleting, type ApiObject, type ObjectApi } from '../client.ts'
import type { SyncAnswer } from './answer.ts'
import { desiredChildren, withDefaults, words } from './children.ts'
import { claimChildren } from './claim.ts'
import type { CompositeController } from './composite.ts'
import type { Finalizer } from './finalizer.ts'
import { TooManyRequests } from './hooks.ts'
import { describe, type ObjectMap } from './object.ts'
import type { Parts } from './parts.ts'
import { childSelector } from './selector.ts'
import { writeStatus } from './status.ts'

/** What ends the whole process of Metacontroller, whatever else it is doing. */
export class Crash extends Error {}

export interface PassOptions {
  api: ObjectApi
  controller: CompositeController
  parts: Parts
  finalizer: Finalizer
  /** By the labels of the parent; one that is not selected is ours only while it has our finalizer. */
  selected: (parent: ApiObject) => boolean
  /** Asks for another pass after this time. */
  resync: (parent: ApiObject, ms: number) => void
}

/** A parent and its children as the hook saw them, and what it answered. */
export interface Answered {
  parent: ApiObject
  observed: ObjectMap
  answer: SyncAnswer
}

export async function runPass(options: PassOptions, cached: ApiObject): Promise<void> {
  const answered = await askHook(options, cached)
  if (answered !== undefined) await carryOut(options, answered)
}

/** The first half of a pass, up to the answer; undefined if the parent does not concern this controller. */
export async function askHook(
  options: PassOptions,
  cached: ApiObject,
): Promise<Answered | undefined> {
  const { api, controller, parts, finalizer, selected } = options
  const concerns = (parent: ApiObject) => finalizer.on(parent) || selected(parent)
  if (!concerns(cached)) return undefined
  const parent = await finalizer.settle(cached).catch((error: unknown) => {
    throw new Error(`can't sync finalizer for ${describe(cached)}: ${words(error)}`)
  })
  if (!concerns(parent)) return undefined

  const matches = childSelector(controller, parent)
  const observed = await claimChildren({ api, parent, matches, children: parts.children })
  return { parent, observed, answer: await ask(options, parent, observed) }
}

/** The second half of a pass: timer, children, status. */
export async function carryOut(options: PassOptions, answered: Answered): Promise<void> {
  const { api, controller, finalizer, resync } = options
  const { observed, answer } = answered
  let { parent } = answered
  const matches = childSelector(controller, parent)
  const children = withDefaults(parent, childrenOf(answer, parent))

  const seconds = answer.resyncAfterSeconds ?? 0
  if (seconds > 0) resync(parent, seconds * 1000)
  if (answer.finalized === true) parent = await finalizer.remove(parent)

  // A wrong label ends the pass before anything is written.
  const desired = desiredChildren(controller, parent, children, matches)
  const error = await manage(options, parent, observed, desired)
  // The status is written also if a child could not be created. If the status fails too, its error wins.
  const written = await writeStatus(api, parent, answer.status).catch((failure: unknown) => {
    throw new Error(`can't update status for ${describe(parent)}: ${words(failure)}`)
  })
  if (written && error !== undefined) throw error
}

async function ask(
  { controller, parts, selected }: PassOptions,
  parent: ApiObject,
  children: ObjectMap,
): Promise<SyncAnswer> {
  const related = await parts.customize.relatedOf(parent)
  const isFinalizing = isDeleting(parent) || !selected(parent)
  const hook = isFinalizing && parts.finalize !== undefined ? parts.finalize : parts.sync
  const finalizing = hook === parts.finalize
  try {
    return await hook.call({ controller, parent, children, related, finalizing })
  } catch (error) {
    if (error instanceof TooManyRequests) throw error
    throw new Error(`${finalizing ? 'finalize' : 'sync'} hook failed: ${words(error)}`)
  }
}

/** Answers the error instead of throwing it: status comes first. */
async function manage(
  { parts, finalizer }: PassOptions,
  parent: ApiObject,
  observed: ObjectMap,
  desired: ObjectMap,
): Promise<Error | undefined> {
  if (isDeleting(parent) && !finalizer.governs(parent)) return undefined
  try {
    await parts.childManagement.manage(parent, observed, desired)
    return undefined
  } catch (error) {
    return new Error(`can't reconcile children for ${describe(parent)}: ${words(error)}`)
  }
}

/** A null among the children is dereferenced by the real one, which ends its process. */
function childrenOf({ children }: SyncAnswer, parent: ApiObject): ApiObject[] {
  const found = children ?? []
  if (found.includes(null)) {
    throw new Crash(`a hook answered a null child for ${describe(parent)}`)
  }
  return found
    .filter((child) => child !== null)
    .map((child) => ({ apiVersion: '', ...child, metadata: { name: '', ...child.metadata } }))
}
