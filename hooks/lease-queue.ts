/**
 * Who waits for the work on a cluster, first come first served: in an annotation of the Lease `backup`,
 * which every backup, restore and helm run needs. A waiter renews its entry whenever it looks, so one that
 * does not look any more soon counts no longer. The queue never lets anybody in: it only keeps those who
 * came later from taking a free Lease.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { LEASE_WAITER_TIMEOUT_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS } from '../crds/contract/names.ts'
import {
  formatHolderIdentity,
  parseHolderIdentity,
  type Lease,
  type LeaseHolder,
} from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'

const Entry = Type.Object({
  holder: Type.String({ maxLength: 512 }),
  /** When it last looked. */
  seen: Type.String({ maxLength: 32 }),
})
type Entry = Static<typeof Entry>

/** In the order in which they came. */
const Entries = Type.Array(Entry, { maxItems: 200 })

/** Who comes when so many wait is not noted, and takes nothing before them. */
const MAX_WAITERS = 50
/** An entry that is younger is not written again: each write makes those of others at that moment fail. */
const RENEW_SECONDS = 75

/** The first one that still waits; undefined when nobody does. */
export function firstWaiter(lease: Lease | undefined, now: Date): LeaseHolder | undefined {
  return activeWaiters(lease, now)[0]
}

/** The first one besides the claimant. */
export function otherWaiter(
  lease: Lease | undefined,
  claimant: LeaseHolder,
  now: Date,
): LeaseHolder | undefined {
  return activeWaiters(lease, now).find(({ uid }) => uid !== claimant.uid)
}

/** The Lease with the claimant in the queue; undefined where it is there and was renewed lately. */
export function enqueued(lease: Lease, claimant: LeaseHolder, now: Date): Lease | undefined {
  const entries = freshEntries(lease, now)
  const index = entries.findIndex((entry) => belongsTo(entry, claimant))
  const ownEntry: Entry = { holder: formatHolderIdentity(claimant), seen: now.toISOString() }
  if (index < 0)
    return entries.length < MAX_WAITERS ? withEntries(lease, [...entries, ownEntry]) : undefined
  const age = Math.abs(secondsSince(entries[index]?.seen ?? '', now))
  return age < RENEW_SECONDS ? undefined : withEntries(lease, entries.with(index, ownEntry))
}

/** The Lease with the claimant at the end of the queue. */
export function requeued(lease: Lease, claimant: LeaseHolder, now: Date): Lease {
  const others = freshEntries(lease, now).filter((entry) => !belongsTo(entry, claimant))
  return withEntries(lease, [
    ...others,
    { holder: formatHolderIdentity(claimant), seen: now.toISOString() },
  ])
}

/** The annotation for whoever takes the Lease: those who wait besides it. */
export function waitersWithout(
  lease: Lease | undefined,
  claimant: LeaseHolder,
): Record<string, string> | undefined {
  const others = readEntries(lease).filter((entry) => !belongsTo(entry, claimant))
  return others.length === 0 ? undefined : { [ANNOTATIONS.waiters]: JSON.stringify(others) }
}

/** A Lease that is given back goes on existing while somebody may wait in it. */
export function hasOtherWaiters(lease: Lease, claimant: LeaseHolder): boolean {
  return waitersWithout(lease, claimant) !== undefined
}

function activeWaiters(lease: Lease | undefined, now: Date): LeaseHolder[] {
  return freshEntries(lease, now).flatMap(({ holder }) => parseHolderIdentity(holder) ?? [])
}

function freshEntries(lease: Lease | undefined, now: Date): Entry[] {
  return readEntries(lease).filter(
    ({ seen }) => Math.abs(secondsSince(seen, now)) < LEASE_WAITER_TIMEOUT_SECONDS,
  )
}

/** Whoever may write Leases can write there: what does not read is no queue. */
function readEntries(lease: Lease | undefined): Entry[] {
  const text = lease?.metadata.annotations?.[ANNOTATIONS.waiters]
  if (text === undefined) return []
  try {
    const parsed: unknown = JSON.parse(text)
    return Value.Check(Entries, parsed) ? parsed : []
  } catch {
    return []
  }
}

function belongsTo({ holder }: Entry, { uid }: LeaseHolder): boolean {
  return parseHolderIdentity(holder)?.uid === uid
}

function withEntries(lease: Lease, entries: Entry[]): Lease {
  const annotations = {
    ...lease.metadata.annotations,
    [ANNOTATIONS.waiters]: JSON.stringify(entries),
  }
  return { ...lease, metadata: { ...lease.metadata, annotations } }
}
