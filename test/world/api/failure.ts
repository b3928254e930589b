/** Errors of the API: the Status objects of Kubernetes, with its messages. */
import type { Kind } from './kinds.ts'

export interface Cause {
  field: string
  message: string
  reason?: string
}

interface Details {
  name?: string
  group?: string
  kind?: string
  causes?: Cause[]
}

export class ApiFailure extends Error {
  readonly code: number
  readonly reason: string
  readonly details: Details

  constructor(code: number, reason: string, message: string, details: Details = {}) {
    super(message)
    this.code = code
    this.reason = reason
    this.details = details
  }

  /** Its JSON on the wire. */
  toStatus(): object {
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: this.message,
      reason: this.reason,
      details: this.details,
      code: this.code,
    }
  }
}

export function notFound(kind: Kind, name: string): ApiFailure {
  return about(404, 'NotFound', `${resourceOf(kind)} "${name}" not found`, kind, name)
}

export function unknownPath(): ApiFailure {
  return new ApiFailure(404, 'NotFound', 'the server could not find the requested resource')
}

export function alreadyExists(kind: Kind, name: string): ApiFailure {
  return about(409, 'AlreadyExists', `${resourceOf(kind)} "${name}" already exists`, kind, name)
}

export function conflict(kind: Kind, name: string, why: string): ApiFailure {
  const message = `Operation cannot be fulfilled on ${resourceOf(kind)} "${name}": ${why}`
  return about(409, 'Conflict', message, kind, name)
}

export const MODIFIED =
  'the object has been modified; please apply your changes to the latest version and try again'

export function forbidden(kind: Kind, name: string, why: string, causes: Cause[] = []): ApiFailure {
  const message = `${resourceOf(kind)} "${name}" is forbidden: ${why}`
  return new ApiFailure(403, 'Forbidden', message, { ...detailsOf(kind, name), causes })
}

export function invalid(kind: Kind, name: string, causes: Cause[]): ApiFailure {
  const lines = causes.map(({ field, message }) =>
    field === '' ? message : `${field}: ${message}`,
  )
  const list = lines.length === 1 ? String(lines[0]) : `[${lines.join(', ')}]`
  const type = kind.group === '' ? kind.kind : `${kind.kind}.${kind.group}`
  const message = `${type} "${name}" is invalid: ${list}`
  return new ApiFailure(422, 'Invalid', message, {
    ...detailsOf(kind, name),
    kind: kind.kind,
    causes,
  })
}

export function badRequest(message: string): ApiFailure {
  return new ApiFailure(400, 'BadRequest', message)
}

export function immutable(field: string, value: unknown): Cause {
  const message = `Invalid value: ${JSON.stringify(value)}: field is immutable`
  return { field, message, reason: 'FieldValueInvalid' }
}

/** `jobs.batch`, `secrets`. */
export function resourceOf({ plural, group }: Kind): string {
  return group === '' ? plural : `${plural}.${group}`
}

function about(
  code: number,
  reason: string,
  message: string,
  kind: Kind,
  name: string,
): ApiFailure {
  return new ApiFailure(code, reason, message, detailsOf(kind, name))
}

function detailsOf(kind: Kind, name: string): Details {
  return { name, ...(kind.group !== '' && { group: kind.group }), kind: kind.plural }
}
