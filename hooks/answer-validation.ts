/**
 * Checks every answer before it is sent. Metacontroller deletes each child that an answer does not
 * name and wipes a status that an answer omits. An invalid answer therefore becomes a 5xx, which
 * changes nothing.
 */
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'
import type { TSchema } from '@sinclair/typebox'
import {
  lenientSchema,
  type Desired,
  type HookAnswer,
  type HookRequest,
  type Observations,
  type AnyParent,
  type KindHooks,
} from './protocol.ts'
import { childId } from './request.ts'

/** The hooks of a kind returned an invalid answer: a defect of the operator, never a user error. */
export class InvalidAnswer extends Error {
  override readonly name = 'InvalidAnswer'
}

export interface AnswerValidator {
  /** Returns the answer to send; throws `InvalidAnswer` naming what is wrong. */
  (request: HookRequest<unknown>, desired: Desired<unknown>, hook: 'sync' | 'finalize'): HookAnswer
}

/** Builds the validator for one kind; its status schema is compiled once. */
export function answerValidator(kindHooks: KindHooks): AnswerValidator {
  const status = TypeCompiler.Compile(kindHooks.status)
  // Fields carried over from an earlier status may come from another release; they must not block
  // the resource.
  const lastStatus = TypeCompiler.Compile(lenientSchema(kindHooks.status))
  const kinds = new Set(kindHooks.childKinds)
  return (request, desired, hook) => {
    checkStatus(hook === 'finalize' ? lastStatus : status, desired.status)
    checkChildren(desired, request.parent as AnyParent, kinds)
    checkNoChildLost(request.children, desired)
    checkOptions(desired, hook)
    return {
      status: desired.status as object,
      children: desired.children,
      ...(desired.resyncAfterSeconds !== undefined && {
        resyncAfterSeconds: desired.resyncAfterSeconds,
      }),
      ...(desired.finalized === true && { finalized: true }),
    }
  }
}

function checkStatus(schema: TypeCheck<TSchema>, status: unknown): void {
  if (typeof status !== 'object' || status === null)
    throw new InvalidAnswer('the status is missing')
  // The compiled check is fast. Search for a description of the error only after it fails.
  if (schema.Check(status)) return
  for (const { path, message } of schema.Errors(status)) {
    throw new InvalidAnswer(`status${path.replaceAll('/', '.')}: ${message}`)
  }
}

function checkChildren(desired: Desired<unknown>, parent: AnyParent, kinds: Set<string>): void {
  if (!Array.isArray(desired.children)) throw new InvalidAnswer('the children are missing')
  const names = new Set<string>()
  for (const child of desired.children) {
    rejectNulls(child, 'children')
    const { kind, apiVersion, metadata } = child
    const name = childId(child)
    if (names.has(name)) throw new InvalidAnswer(`child ${name} is listed twice`)
    names.add(name)
    if (!kinds.has(childKind(apiVersion, kind))) {
      throw new InvalidAnswer(`child ${name} has a kind that is not declared`)
    }
    if ((metadata.namespace ?? parent.metadata.namespace) !== parent.metadata.namespace) {
      throw new InvalidAnswer(`child ${name} is in another namespace`)
    }
    // Metacontroller sets this label itself; another value stops reconciliation of every child of
    // this parent.
    if (metadata.labels?.['controller-uid'] !== undefined) {
      throw new InvalidAnswer(`child ${name} sets the label controller-uid`)
    }
  }
}

/** `null` among the children terminates the whole Metacontroller process. */
function rejectNulls(value: unknown, path: string): void {
  if (value === null) throw new InvalidAnswer(`${path} contains a null`)
  if (typeof value !== 'object') return
  for (const [key, nested] of Object.entries(value)) rejectNulls(nested, `${path}.${key}`)
}

function checkNoChildLost(observed: Observations, desired: Desired<unknown>): void {
  const accountedFor = new Set(desired.children.map(childId))
  for (const { kind, name } of desired.pruned ?? []) accountedFor.add(`${kind}/${name}`)
  for (const child of Object.values(observed).flatMap((objects) => Object.values(objects))) {
    if (!accountedFor.has(childId(child))) {
      throw new InvalidAnswer(`the observed child ${childId(child)} is neither returned nor pruned`)
    }
  }
}

function checkOptions(desired: Desired<unknown>, hook: 'sync' | 'finalize'): void {
  if (desired.finalized === true && hook === 'sync') {
    throw new InvalidAnswer('finalized is set in an answer to sync')
  }
  const seconds = desired.resyncAfterSeconds
  if (seconds !== undefined && !(Number.isFinite(seconds) && seconds > 0)) {
    throw new InvalidAnswer(`resyncAfterSeconds is ${seconds}`)
  }
}

/** `Kind.group/version`, the key that Metacontroller uses in its requests. */
export function childKind(apiVersion: string, kind: string): string {
  return `${kind}.${apiVersion}`
}
