/**
 * Who waits for the work on a cluster, first come first served: in an annotation of the Lease `backup`,
 * which every backup, restore and helm run needs. A waiter renews its entry whenever it looks, so one that
 * does not look any more soon counts no longer. The queue never lets anybody in: it only keeps those who
 * came later from taking a free Lease.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Lease } from '../crds/kubernetes.ts'
import { LEASE_WAITER_SECONDS } from '../crds/limits.ts'
import { ANNOTATIONS } from '../crds/names.ts'
import { holderOfIdentity, identityOf, type Holder } from '../crds/rules/holder.ts'
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
export function firstWaiter(lease: Lease | undefined, now: Date): Holder | undefined {
  return waitersOf(lease, now)[0]
}

/** The first one besides the claimant. */
export function otherWaiter(
  lease: Lease | undefined,
  claimant: Holder,
  now: Date,
): Holder | undefined {
  return waitersOf(lease, now).find(({ uid }) => uid !== claimant.uid)
}

/** The Lease with the claimant in the queue; undefined where it is there and was renewed lately. */
export function enqueued(lease: Lease, claimant: Holder, now: Date): Lease | undefined {
  const entries = freshEntries(lease, now)
  const at = entries.findIndex((entry) => isOf(entry, claimant))
  const own: Entry = { holder: identityOf(claimant), seen: now.toISOString() }
  if (at < 0)
    return entries.length < MAX_WAITERS ? withEntries(lease, [...entries, own]) : undefined
  const age = Math.abs(secondsSince(entries[at]?.seen ?? '', now))
  return age < RENEW_SECONDS ? undefined : withEntries(lease, entries.with(at, own))
}

/** The Lease with the claimant at the end of the queue. */
export function requeued(lease: Lease, claimant: Holder, now: Date): Lease {
  const others = freshEntries(lease, now).filter((entry) => !isOf(entry, claimant))
  return withEntries(lease, [...others, { holder: identityOf(claimant), seen: now.toISOString() }])
}

/** The annotation for whoever takes the Lease: those who wait besides it. */
export function waitersWithout(
  lease: Lease | undefined,
  claimant: Holder,
): Record<string, string> | undefined {
  const others = entriesOf(lease).filter((entry) => !isOf(entry, claimant))
  return others.length === 0 ? undefined : { [ANNOTATIONS.waiters]: JSON.stringify(others) }
}

/** A Lease that is given back goes on existing while somebody may wait in it. */
export function hasWaiters(lease: Lease, claimant: Holder): boolean {
  return waitersWithout(lease, claimant) !== undefined
}

function waitersOf(lease: Lease | undefined, now: Date): Holder[] {
  return freshEntries(lease, now).flatMap(({ holder }) => holderOfIdentity(holder) ?? [])
}

function freshEntries(lease: Lease | undefined, now: Date): Entry[] {
  return entriesOf(lease).filter(
    ({ seen }) => Math.abs(secondsSince(seen, now)) < LEASE_WAITER_SECONDS,
  )
}

/** Whoever may write Leases can write there: what does not read is no queue. */
function entriesOf(lease: Lease | undefined): Entry[] {
  const text = lease?.metadata.annotations?.[ANNOTATIONS.waiters]
  if (text === undefined) return []
  try {
    const found: unknown = JSON.parse(text)
    return Value.Check(Entries, found) ? found : []
  } catch {
    return []
  }
}

function isOf({ holder }: Entry, { uid }: Holder): boolean {
  return holderOfIdentity(holder)?.uid === uid
}

function withEntries(lease: Lease, entries: Entry[]): Lease {
  const annotations = {
    ...lease.metadata.annotations,
    [ANNOTATIONS.waiters]: JSON.stringify(entries),
  }
  return { ...lease, metadata: { ...lease.metadata, annotations } }
}
