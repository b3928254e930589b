/**
 * All resources as the hooks were last shown them. Nothing is asked of the API for it; a resource is
 * forgotten when it is gone, or when others were shown long after it.
 */
import type { HookAnswer, HookRequest } from '../hooks/protocol.ts'
import type { AnyParent } from '../hooks/room.ts'
import { sightingOf, type Sighting } from './sighting.ts'

/** Three of the periods in which Metacontroller shows each resource again. */
const FORGOTTEN_MS = 900_000
/** Of resources with a name of their own in the metrics, so many of each sort. */
const NAMED = 100

export class Census {
  readonly #now: () => Date
  /** By uid; the one shown last stands last. */
  readonly #seen = new Map<string, Sighting & { at: number }>()

  constructor(now: () => Date) {
    this.#now = now
  }

  /** Takes note of one answer. */
  note(request: HookRequest<AnyParent>, answer: HookAnswer): void {
    const { uid } = request.parent.metadata
    const now = this.#now()
    this.#seen.delete(uid)
    if (answer.finalized === true) return
    this.#seen.set(uid, { ...sightingOf(request, answer, now), at: now.getTime() })
    this.#forget(now.getTime())
  }

  /** Resources by kind and phase. */
  phases(): { kind: string; phase: string; count: number }[] {
    const counts = new Map<string, { kind: string; phase: string; count: number }>()
    for (const { kind, phase } of this.#seen.values()) {
      const known = counts.get(`${kind}/${phase}`) ?? { kind, phase, count: 0 }
      counts.set(`${kind}/${phase}`, { ...known, count: known.count + 1 })
    }
    return [...counts.values()]
  }

  /** Of each kind those in trouble, the latest first. */
  inTrouble(): (Sighting & { trouble: NonNullable<Sighting['trouble']> })[] {
    const byKind = Map.groupBy(this.#with('trouble'), ({ kind }) => kind)
    return [...byKind.values()].flatMap((seen) =>
      seen.toSorted((one, other) => other.trouble.since - one.trouble.since).slice(0, NAMED),
    )
  }

  /** Of each kind those with conditions that mean danger; which, when they are many, is left open. */
  inDanger(): (Sighting & { dangers: NonNullable<Sighting['dangers']> })[] {
    const byKind = Map.groupBy(this.#with('dangers'), ({ kind }) => kind)
    return [...byKind.values()].flatMap((seen) => seen.slice(0, NAMED))
  }

  /** Schedules, those whose newest backup is oldest first. */
  schedules(): (Sighting & { schedule: NonNullable<Sighting['schedule']> })[] {
    const age = ({ schedule }: { schedule: NonNullable<Sighting['schedule']> }) =>
      schedule.completedAt ?? schedule.createdAt
    return this.#with('schedule')
      .sort((one, other) => age(one) - age(other))
      .slice(0, NAMED)
  }

  /** Access keys, those to be renewed next first. */
  renewals(): (Sighting & { renewAt: number })[] {
    return this.#with('renewAt')
      .sort((one, other) => one.renewAt - other.renewAt)
      .slice(0, NAMED)
  }

  #with<Field extends 'trouble' | 'dangers' | 'schedule' | 'renewAt'>(field: Field) {
    type Having = Sighting & { [Key in Field]-?: NonNullable<Sighting[Key]> }
    return [...this.#seen.values()].filter((seen): seen is Having & { at: number } => field in seen)
  }

  /** Told by what is shown, not by the clock: when Metacontroller is silent, nothing has gone. */
  #forget(now: number): void {
    for (const [uid, { at }] of this.#seen) {
      if (now - at < FORGOTTEN_MS) return
      this.#seen.delete(uid)
    }
  }
}
