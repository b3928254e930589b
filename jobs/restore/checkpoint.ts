/**
 * Checkpoint of a restore within one collection: what is restored, as it is reported and as the
 * next pod continues from it. Also counts the restored bytes.
 */
import type { RestoredCollection, RestoreResult } from '../../crds/contract/restore-job.ts'
import type { RestoreItem, SourceSnapshot } from '../manifest-check.ts'

export type CurrentCollection = NonNullable<RestoreResult['current']>

/** A recovery that a node may be running: of its whole snapshot, or of one shard. */
export type Recovery = NonNullable<CurrentCollection['running']>[number]

/**
 * Shard ids that fit into the report; shards beyond this limit are recovered again after a kill.
 */
const MAX_REPORTED_SHARDS = 2000

/** How far an earlier attempt got in a collection. */
export interface Checkpoint {
  nodesDone: number
  /** Ids of the restored shards, for a backup by shard. */
  shardsDone: number[]
  isOurs: boolean
  /** Of the collection that the earlier attempt created or found. */
  uuid?: string | undefined
  /**
   * Recoveries that its nodes may still be running; `unknown` if the release that wrote the
   * checkpoint did not record them.
   */
  running: Recovery[] | 'unknown'
  /** Replication factor of the collection before it was lowered. */
  factor?: number | undefined
}

/** The replication factor of a collection before it was lowered. */
export interface LoweredFactor {
  factor: number
  /** Of the collection that had it, if the engine reports it. */
  uuid?: string
}

/** An empty checkpoint if `current` belongs to another collection. */
export function checkpointFor(
  current: CurrentCollection | undefined,
  collection: string,
): Checkpoint {
  if (current?.collection !== collection) {
    return { nodesDone: 0, shardsDone: [], isOurs: false, running: [] }
  }
  const { nodesDone, shardsDone = [], isOurs, factor, uuid } = current
  return { nodesDone, shardsDone, isOurs, factor, uuid, running: runningRecoveries(current) }
}

/**
 * In releases that did not record recoveries, no recovery has been requested during these steps.
 */
const STEPS_BEFORE_RECOVERY = ['begins', 'places its shards']

function runningRecoveries({ running, step }: CurrentCollection): Recovery[] | 'unknown' {
  return running ?? (STEPS_BEFORE_RECOVERY.includes(step) ? [] : 'unknown')
}

export function isSameRecovery(a: Recovery, b: Recovery): boolean {
  return a.node === b.node && a.shard === b.shard
}

export function isStarted(checkpoint: Checkpoint): boolean {
  return isPartlyRestored(checkpoint) || checkpoint.isOurs
}

/** Whether some of its points are restored. */
export function isPartlyRestored({ nodesDone, shardsDone }: Checkpoint): boolean {
  return nodesDone > 0 || shardsDone.length > 0
}

/** Bytes of the restored snapshots. */
export function restoredBytes(
  { source }: RestoreItem,
  { nodesDone, shardsDone }: Checkpoint,
): number {
  const isRestored = (snapshot: SourceSnapshot) =>
    'shardId' in snapshot ? shardsDone.includes(snapshot.shardId) : snapshot.nodeIndex < nodesDone
  const snapshots: SourceSnapshot[] = source.snapshots
  return snapshots.filter(isRestored).reduce((sum, { sizeBytes }) => sum + sizeBytes, 0)
}

/** Checkpoint fields for the method of the backup. */
export function doneFields({ method, source }: RestoreItem, { nodesDone, shardsDone }: Checkpoint) {
  return { nodesDone, ...(method === 'Shard' && { shards: source.shards.length, shardsDone }) }
}

export function formatDone({ nodesDone, nodes, shardsDone, shards }: CurrentCollection): string {
  if (shards === undefined) return `${nodesDone} of ${nodes} nodes done`
  return `${shardsDone?.length ?? 0} of ${shards} shards done`
}

export function truncateShards({ shardsDone, ...current }: CurrentCollection): CurrentCollection {
  if (shardsDone === undefined) return current
  return { ...current, shardsDone: shardsDone.slice(0, MAX_REPORTED_SHARDS) }
}

/** `back`: Failed, but its points are restored. */
export type CollectionState = 'completed' | 'failed' | 'back' | 'pending'

const STATE_LETTERS = {
  completed: 'C',
  failed: 'F',
  back: 'B',
  pending: 'P',
} as const satisfies Record<CollectionState, string>
const STATE_BY_LETTER = new Map<string, CollectionState>(
  Object.entries(STATE_LETTERS).map(([state, letter]) => [letter, state as CollectionState]),
)

export function stateOf({ status, isInPlace }: RestoredCollection): CollectionState {
  if (status === 'Completed') return 'completed'
  if (status !== 'Failed') return 'pending'
  return isInPlace === true ? 'back' : 'failed'
}

/** Run-length encoded, for example `300C2F148P`. */
export function encodeStates(states: readonly CollectionState[]): string {
  return encodeRuns(states.map((state) => STATE_LETTERS[state]))
}

/** Undefined if a letter is unknown or the text does not have exactly `length` states. */
export function decodeStates(text: string, length: number): CollectionState[] | undefined {
  const states = decodeRuns(text, length)?.map((letter) => STATE_BY_LETTER.get(letter))
  return states?.every((state) => state !== undefined) === true ? states : undefined
}

const [ABSENT, OTHER] = ['A', 'O']

/** Which of these names were absent at the target, run-length encoded, for example `3A2O`. */
export function encodeAbsent(names: readonly string[], absent: ReadonlySet<string>): string {
  return encodeRuns(names.map((name) => (absent.has(name) ? ABSENT : OTHER)))
}

/** Empty if the text is not that of as many names. */
export function decodeAbsent(text: string, names: readonly string[]): string[] {
  const letters = decodeRuns(text, names.length) ?? []
  return names.filter((_, index) => letters[index] === ABSENT)
}

function encodeRuns(letters: readonly string[]): string {
  let text = ''
  for (let from = 0; from < letters.length;) {
    const letter = letters[from] ?? ''
    let to = from
    while (letters[to] === letter) to += 1
    text += `${to - from}${letter}`
    from = to
  }
  return text
}

function decodeRuns(text: string, length: number): string[] | undefined {
  const letters: string[] = []
  for (const [, count = '', letter = ''] of text.matchAll(/(\d{1,9})(\D)/g)) {
    if (letters.length + Number(count) > length) return undefined
    letters.push(...Array.from({ length: Number(count) }, () => letter))
  }
  return letters.length === length ? letters : undefined
}

export class CollectionProgress {
  #restored = 0
  /** Bytes sent so far of the snapshots that are in transit, by key. */
  readonly #inTransit = new Map<string, number>()
  /** When this attempt started, in milliseconds; `#moved` counts the bytes restored since then. */
  #startedAt = 0
  #moved = 0

  start(now: number): void {
    this.#startedAt = now
  }

  /** Starts another collection, of which `restored` bytes are already restored. */
  startCollection(restored: number): void {
    this.#restored = restored
    this.#inTransit.clear()
  }

  /** Counts an uploaded snapshot from its first byte; a retry starts at 0. */
  startUpload(key: string): void {
    this.#inTransit.set(key, 0)
  }

  addSent(key: string, bytes: number): void {
    this.#inTransit.set(key, (this.#inTransit.get(key) ?? 0) + bytes)
  }

  snapshotRestored(key: string, bytes: number): void {
    this.#inTransit.delete(key)
    this.#restored += bytes
    this.#moved += bytes
  }

  get bytes(): number {
    return [...this.#inTransit.values()].reduce((sum, bytes) => sum + bytes, this.#restored)
  }

  /** Average since the start of this attempt. */
  bytesPerSecond(now: number): number {
    return this.#moved / (Math.max(1, now - this.#startedAt) / 1000)
  }
}
