/**
 * Checks that the installed CRDs belong to this release. The API server silently prunes status
 * fields that an older CRD does not have, so the hooks of a kind with an older CRD must not answer
 * at all.
 */
import type { AnyObject } from '../crds/kubernetes.ts'
import { crdName, outdatedCrdReason } from '../crds/crd.ts'
import type { Log, Timers } from './runtime.ts'

export interface CrdVersionOptions {
  /** Release of the operator. */
  version: string
  plurals: readonly string[]
  /** Returns the CRD with this name; undefined if it does not exist. */
  read(name: string): Promise<AnyObject | undefined>
  timers: Timers
  log: Log
}

export interface CrdVersions {
  /** Returns why the hooks of this kind must not answer yet; undefined if they may. */
  outdatedReason(plural: string): string | undefined
  stop(): void
}

const RETRY_INTERVAL_MS = 30_000

/** Compares the versions once, then every 30 s while a CRD is missing or outdated. */
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
      // Keep the previous result if the API fails: an installed CRD is not downgraded.
      options.log.warn({ err: error }, 'reading the CRDs failed')
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
