/** What accounts asked of the API server, read from its audit log and summed up. */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'

/** All calls of one account that are alike. */
export interface Calls {
  /** As the API server names it, such as `system:serviceaccount:vec-system:vec-operator`. */
  user: string
  verb: string
  /** Empty for the core group. */
  group: string
  /** With its subresource, such as `vecclusters/status`. */
  resource: string
  allowed: boolean
  count: number
  /** Path of the first one. */
  example: string
}

interface Entry {
  verb: string
  requestURI: string
  user: { username: string }
  /** Absent for paths that are no resources, such as those of discovery. */
  objectRef?: { namespace?: string; resource?: string; subresource?: string; apiGroup?: string }
  annotations?: Record<string, string>
}

const READS = new Set(['get', 'list', 'watch'])
const DECISION = 'authorization.k8s.io/decision'

/** A log may have hundreds of thousands of lines. */
export async function readAudit(file: string): Promise<Calls[]> {
  return sumUp(createInterface({ input: createReadStream(file), crlfDelay: Infinity }))
}

/** Writes of accounts on objects of a namespace, a line each; a call that is forwarded to a pod writes nothing. */
export async function writesIn(file: string, namespace: string): Promise<string[]> {
  const writes: string[] = []
  for await (const line of createInterface({ input: createReadStream(file) })) {
    // Most lines are about something else.
    if (!line.includes(namespace)) continue
    const entry = parsed(line)
    const { objectRef } = entry ?? {}
    if (entry === undefined || objectRef?.namespace !== namespace) continue
    if (READS.has(entry.verb) || objectRef.subresource === 'proxy') continue
    writes.push(`${entry.user.username}: ${entry.verb} ${entry.requestURI}`)
  }
  return writes
}

export async function sumUp(lines: AsyncIterable<string> | Iterable<string>): Promise<Calls[]> {
  const sums = new Map<string, Calls>()
  for await (const line of lines) {
    const calls = callOf(line)
    if (calls === undefined) continue
    const { user, verb, group, resource, allowed } = calls
    const key = JSON.stringify([user, verb, group, resource, allowed])
    const known = sums.get(key)
    if (known === undefined) sums.set(key, calls)
    else known.count += 1
  }
  return [...sums.values()]
}

function callOf(line: string): Calls | undefined {
  const entry = parsed(line)
  if (entry?.objectRef?.resource === undefined) return undefined
  const { resource, subresource, apiGroup = '' } = entry.objectRef
  return {
    user: entry.user.username,
    verb: entry.verb,
    group: apiGroup,
    resource: subresource === undefined ? resource : `${resource}/${subresource}`,
    // A 403 of admission, as in a namespace that ends, is no want of rights.
    allowed: entry.annotations?.[DECISION] !== 'forbid',
    count: 1,
    example: entry.requestURI,
  }
}

/** The last line may be half written. */
function parsed(line: string): Entry | undefined {
  try {
    return JSON.parse(line) as Entry
  } catch {
    return undefined
  }
}
