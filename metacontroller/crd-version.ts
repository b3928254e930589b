/**
 * Whether the CRDs are those of this release. The API server would silently prune what an older CRD
 * does not know from our status, so hooks of such a kind must not answer at all.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import { crdName, outdatedCrdReason } from '../crds/crd.ts'
import type { Log } from './startup-upgrades.ts'
import type { Timers } from './timers.ts'

export interface CrdVersionOptions {
  /** Release of the operator. */
  version: string
  plurals: readonly string[]
  /** The CRD of that name; undefined when there is none. */
  read(name: string): Promise<AnyObject | undefined>
  timers: Timers
  log: Log
}

export interface CrdVersions {
  /** Why hooks of this kind must wait; undefined when they need not. */
  outdatedReason(plural: string): string | undefined
  stop(): void
}

const RETRY_INTERVAL_MS = 30_000

/** Compares once, and every 30 s for as long as a CRD is missing or too old. */
export async function watchCrdVersions(options: CrdVersionOptions): Promise<CrdVersions> {
  let outdated = new Map(
    options.plurals.map((plural) => [plural, `${crdName(plural)} is not read yet`]),
  )
  let stopped = false
  let cancel: (() => void) | undefined

  async function checkVersions(): Promise<void> {
    try {
      outdated = await readOutdated(options)
    } catch (error) {
      // What was known before the API failed stays true: CRDs do not grow older.
      options.log.warn({ err: error }, 'the CRDs cannot be read')
    }
    for (const reason of outdated.values()) options.log.warn({}, reason)
    if (outdated.size > 0 && !stopped) {
      cancel = options.timers.setTimeout(() => void checkVersions(), RETRY_INTERVAL_MS)
    }
  }

  await checkVersions()
  return {
    outdatedReason: (plural) => outdated.get(plural),
    stop() {
      stopped = true
      cancel?.()
    },
  }
}

async function readOutdated(options: CrdVersionOptions): Promise<Map<string, string>> {
  const outdated = new Map<string, string>()
  for (const plural of options.plurals) {
    const reason = outdatedCrdReason(plural, await options.read(crdName(plural)), options.version)
    if (reason !== undefined) outdated.set(plural, reason)
  }
  return outdated
}
