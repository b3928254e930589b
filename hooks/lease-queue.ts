/**
 * The queue for the work on a cluster is first come, first served, in an annotation of the Lease
 * `backup`, which every backup, restore and helm run needs. A waiter renews its entry on each sync; an
 * entry that is not renewed soon expires. The queue never grants a Lease: it only keeps later claimants
 * from acquiring a free one.
 */
import { type Static, Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { LEASE_WAITER_TIMEOUT_SECONDS } from '../crds/contract/limits.ts'
import { ANNOTATIONS } from '../crds/contract/names.ts'
import {
  formatHolderIdentity,
  type Lease,
  type LeaseHolder,
  parseHolderIdentity,
} from '../crds/kubernetes.ts'
import { secondsSince } from './conditions.ts'

const Entry = Type.Object({
  holder: Type.String({ maxLength: 512 }),
  /** Time of the last renewal. */
  seen: Type.String({ maxLength: 32 }),
})

type Entry = Static<typeof Entry>

/** In order of arrival. */
const Entries = Type.Array(Entry, { maxItems: 200 })

/**
 * A claimant that arrives when the queue is full is not recorded, and acquires nothing before the
 * waiters.
 */
const MAX_WAITERS = 50

/** Entries younger than this are not renewed: each write makes concurrent writes of others fail. */
export const RENEW_SECONDS = 75

/** The first active waiter; undefined if there is none. */
export function firstWaiter(lease: Lease | undefined, now: Date): LeaseHolder | undefined {
  return activeWaiters(lease, now)[0]
}

/** The first active waiter other than the claimant. */
export function otherWaiter(
  lease: Lease | undefined,
  claimant: LeaseHolder,
  now: Date,
): LeaseHolder | undefined {
  return activeWaiters(lease, now).find(({ uid }) => uid !== claimant.uid)
}

/**
 * The Lease with the claimant in the queue; undefined if its entry exists and was renewed recently.
 */
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

/** The Lease without the claimant in the queue; undefined if it has no entry there. */
export function dequeued(lease: Lease, claimant: LeaseHolder): Lease | undefined {
  const entries = readEntries(lease)
  const others = entries.filter((entry) => !belongsTo(entry, claimant))
  return others.length === entries.length ? undefined : withEntries(lease, others)
}

/** The annotation for a claimant that acquires the Lease: the waiters except itself. */
export function waitersWithout(
  lease: Lease | undefined,
  claimant: LeaseHolder,
): Record<string, string> | undefined {
  const others = readEntries(lease).filter((entry) => !belongsTo(entry, claimant))
  return others.length === 0 ? undefined : { [ANNOTATIONS.waiters]: JSON.stringify(others) }
}

function activeWaiters(lease: Lease | undefined, now: Date): LeaseHolder[] {
  return freshEntries(lease, now).flatMap(({ holder }) => parseHolderIdentity(holder) ?? [])
}

function freshEntries(lease: Lease | undefined, now: Date): Entry[] {
  return readEntries(lease).filter(
    ({ seen }) => Math.abs(secondsSince(seen, now)) < LEASE_WAITER_TIMEOUT_SECONDS,
  )
}

/**
 * Users who may write Leases can write this annotation: an invalid value counts as an empty queue.
 */
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
