/**
 * One writer and one reader, all the time. The writer upserts, overwrites and deletes points, lets shard
 * keys, an alias and a whole collection come and go, and notes in the ledger what was acknowledged. A point
 * whose write failed is left alone from then on: what became of it is unknown. A write that the engine has
 * only queued counts as acknowledged once a later call has waited for every shard of its collection.
 */
import type { Dice } from '../faults/machine/dice.ts'
import { ask, onceElected, pathOf } from './ask.ts'
import type { Ledger, PointName } from './ledger.ts'
import { pointOf, VECTORS, versionOf, type StoredPoint } from './point.ts'

/** Collections of the load: shards by hash, shards by key, and one that is created and deleted. */
export const PLAIN = 'plain'
export const KEYED = 'keyed'
export const PASSING = 'passing'
export const COLLECTIONS = [PLAIN, KEYED, PASSING] as const
export const ALIAS = 'current'
/** What the alias may name; in the ledger its version is the place in this list. */
export const NAMED = [PLAIN, KEYED] as const
export const ALIAS_NAME = { collection: 'aliases', id: 0 }
const FIRST_KEYS = ['alpha', 'beta']

const BATCH = 20
const PAUSE_MS = 20
const WRITE_MS = 8_000
const RETRY_MS = 500
const CHURN_MS = 1_500
const REWRITE_ATTEMPTS = 20
const REWRITE_PAUSE_MS = 500
/** As many writes may be queued before the writer waits for them. */
const MAX_QUEUED = 5
const NEVER_WRITTEN = 0

/** A collection, under a shard key where it has them, with the points to choose from. */
interface Area {
  collection: string
  key?: string
  /** Version by id, for points whose last write was acknowledged. */
  live: Map<number, number>
}

export interface TrafficOptions {
  ledger: Ledger
  dice: Dice
  /** Where it may write and read; asked each time. */
  urls: () => readonly string[]
  replicas: number
  shards: number
  /** How long a read that failed, or that found another value, is repeated. */
  retryMs?: number
  /** Time between two changes of shard keys, the alias and the collection. */
  churnMs?: number
  /** The id of the first point; 1 if it is not set. */
  firstId?: number
  /** Whether a write that failed is repeated once: the second attempt decides whether it was acknowledged. */
  repeatsWrites?: boolean
  /** The part of the writes that do not wait until they are applied (`wait=false`); none if it is not set. */
  queuedPart?: number
}

export interface UnservedRead {
  collection: string
  key?: string
  id: number
  /** Of the point, where it was found since. */
  shard?: number
  /** Beginning of the first and end of the last attempt, in milliseconds since 1970. */
  from: number
  to: number
  /** With all its attempts. */
  text: string
}

/** A write that the engine has put into its queue. */
interface Queued {
  area: Area
  /** Called once it is applied. */
  confirm: () => void
}

type Attempt = (change: () => Promise<unknown>) => Promise<unknown>

/** A change during faults may fail. */
const once: Attempt = (change) => change()

export class Traffic {
  /** Reads that found the acknowledged point, that failed, and that found another value. */
  readonly reads = { good: 0, failed: 0, wrong: 0 }
  /** Operations that also failed when they were repeated once. */
  readonly failedTwice = { reads: 0, writes: 0 }
  /** Reads that never found the acknowledged point. */
  readonly unserved: UnservedRead[] = []
  /** Writes that also failed when they were repeated: the answer to the second attempt. */
  readonly repeatedFailures: string[] = []
  readonly writes = { good: 0, failed: 0 }
  /** Writes that were put into a queue, and those of them that are known to be applied. */
  readonly queued = { written: 0, confirmed: 0 }
  /** Milliseconds of the reads that found the acknowledged point at once; taken and emptied by who measures. */
  latencies: number[] = []
  /** Milliseconds of the writes that were acknowledged at once; taken and emptied by who measures. */
  writeLatencies: number[] = []
  readonly #options: TrafficOptions
  #areas: Area[] = []
  #queue: Queued[] = []
  #version = 0
  #nextId: number
  #nextKey = 1
  #over = true
  #churns = false
  #work: Promise<unknown> = Promise.resolve()

  constructor(options: TrafficOptions) {
    this.#options = options
    this.#nextId = options.firstId ?? 1
  }

  /** Creates the collections and writes the first points. */
  async fill(points: number): Promise<void> {
    await this.#createPlain(PLAIN, onceElected)
    await onceElected(() => this.#createKeyed())
    for (const key of FIRST_KEYS) await this.#createKey(key, onceElected)
    await this.#createPlain(PASSING, onceElected)
    while ([...this.#areas].some(({ live }) => live.size < points / this.#areas.length)) {
      for (const area of this.#areas) await this.#upsert(area, this.#newIds(BATCH))
      if (this.writes.failed > 50) throw new Error('the first points could not be written')
    }
    await this.#point(PLAIN, onceElected)
  }

  /** Writes new points into the collection until it has this many. */
  async fillUp(collection: string, points: number): Promise<void> {
    const areas = this.#areas.filter((area) => area.collection === collection)
    while (areas.reduce((sum, { live }) => sum + live.size, 0) < points) {
      for (const area of areas) await this.#upsert(area, this.#newIds(BATCH))
      if (this.writes.failed > 50) throw new Error(`${collection} could not be filled`)
    }
  }

  /** Only points of this collection are written from now on; it is created where it is missing. */
  async only(collection: string): Promise<void> {
    this.#areas = this.#areas.filter((area) => area.collection === collection)
    if (this.#areas.length === 0) await this.#createPlain(collection)
  }

  /** Continues with points that a restore or migration wrote, as they were found. */
  adopt(collection: string, points: Iterable<readonly [StoredPoint, string | undefined]>): void {
    const byKey = new Map<string | undefined, Area>()
    for (const [point, key] of points) {
      const version = versionOf(point)
      if (version === undefined) continue
      const named = key === undefined ? {} : { key }
      const area = byKey.get(key) ?? { collection, ...named, live: new Map<number, number>() }
      byKey.set(key, area)
      area.live.set(point.id, version)
      this.#options.ledger.begin({ collection, ...named, id: point.id }, version).acknowledge()
      this.#version = Math.max(this.#version, version)
      this.#nextId = Math.max(this.#nextId, point.id + 1)
    }
    this.#areas.push(...byKey.values())
  }

  start({ churns = false } = {}): void {
    this.#over = false
    this.#churns = churns
    this.#work = Promise.all([this.#write(), this.#read()])
  }

  /** Whether more than points comes and goes from now on; returns whether it did before. */
  churn(isOn: boolean): boolean {
    const before = this.#churns
    this.#churns = isOn
    return before
  }

  async stop(): Promise<void> {
    this.#over = true
    await this.#work
    for (let attempt = 1; attempt <= REWRITE_ATTEMPTS; attempt += 1) {
      await this.#confirmQueued()
      if (this.#queue.length === 0) return
      await pause(REWRITE_PAUSE_MS)
    }
  }

  /**
   * Repeats the last operation on each point until it is acknowledged, as a client does that finds
   * replicas of a point different. Only while nothing else is written.
   */
  async rewrite(names: readonly PointName[]): Promise<void> {
    for (const { collection, key, id } of names) {
      const version = this.#options.ledger.last({ collection, id, ...keyed({ key }) })
      if (version === undefined) continue
      const area = { collection, ...keyed({ key }), live: new Map<number, number>() }
      const name = this.#nameOf(area, id)
      for (let attempt = 1; ; attempt += 1) {
        const write = this.#options.ledger.begin(name, version)
        const isDone =
          version === null
            ? await this.#did('POST', deletePath(area, true), { points: [id], ...keyOf(area) })
            : await this.#did('PUT', upsertPath(area, true), {
                points: [pointOf(id, version)],
                ...keyOf(area),
              })
        if (isDone) write.acknowledge()
        if (isDone || attempt === REWRITE_ATTEMPTS) break
        await pause(REWRITE_PAUSE_MS)
      }
    }
  }

  /** Deletes a collection as a user does: no point of it is to come back. */
  async drop(collection: string): Promise<void> {
    const areas = this.#areas.filter((area) => area.collection === collection)
    this.#areas = this.#areas.filter((area) => area.collection !== collection)
    await this.#forget(areas, () => ask(this.#url(), 'DELETE', `${pathOf(collection)}?timeout=10`))
  }

  /** One call at a time: nothing is written into a collection that is being deleted. */
  async #write(): Promise<void> {
    const { dice, churnMs = CHURN_MS } = this.#options
    let nextChurn = Date.now() + churnMs
    while (!this.#over) {
      if (this.#queue.length >= MAX_QUEUED) await this.#confirmQueued()
      if (this.#churns && Date.now() > nextChurn) {
        await this.#confirmQueued()
        await this.#churn()
        nextChurn = Date.now() + churnMs
      }
      const area = this.#areas[dice.between(0, Math.max(0, this.#areas.length - 1))]
      if (area !== undefined) {
        const chance = dice.next()
        const waits = this.#waits()
        if (chance < 0.5) await this.#upsert(area, this.#newIds(BATCH), waits)
        else if (chance < 0.8) await this.#upsert(area, this.#some(area, BATCH), waits)
        else await this.#delete(area, this.#some(area, BATCH / 4), waits)
      }
      await pause(PAUSE_MS)
    }
  }

  async #read(): Promise<void> {
    const { dice } = this.#options
    while (!this.#over) {
      const area = this.#areas[dice.between(0, Math.max(0, this.#areas.length - 1))]
      const [id] = area === undefined ? [] : this.#some(area, 1)
      if (area !== undefined && id !== undefined) await this.#readOne(area, id)
      await pause(PAUSE_MS * 2)
    }
  }

  async #readOne(area: Area, id: number): Promise<void> {
    const { retryMs = 0 } = this.#options
    const from = new Date()
    const end = from.getTime() + retryMs
    const attempts: string[] = []
    for (let attempt = 1; ; attempt += 1) {
      const begun = performance.now()
      const url = this.#url()
      const { outcome, detail } = await this.#tryRead(url, area, id)
      attempts.push(`${url}: ${outcome}: ${detail}`)
      if (attempt === 1) this.reads[outcome] += 1
      if (attempt === 1 && outcome === 'good') this.latencies.push(performance.now() - begun)
      if (attempt === 2 && outcome !== 'good') this.failedTwice.reads += 1
      // A collection or a shard key that is deleted meanwhile takes its points with it.
      if (outcome === 'good' || retryMs === 0 || !this.#areas.includes(area)) return
      if (Date.now() > end) {
        const key = area.key === undefined ? '' : ` under shard key ${area.key}`
        const point = `${area.collection}/${id}${key}`
        const text = `${point}, from ${from.toISOString()}: ${attempts.join('; ')}`
        const { collection } = area
        const times = { from: from.getTime(), to: Date.now() }
        this.unserved.push({ collection, ...keyed(area), id, ...times, text })
        return
      }
      await pause(RETRY_MS)
    }
  }

  async #tryRead(url: string, area: Area, id: number) {
    const { ledger } = this.#options
    const from = ledger.now()
    const body = { ids: [id], with_payload: true, with_vector: true, ...keyOf(area) }
    try {
      const path = `${pathOf(area.collection)}/points`
      const [point] = (await ask(url, 'POST', path, body, WRITE_MS)) as StoredPoint[]
      const name = { collection: area.collection, ...keyed(area), id }
      const allowed = ledger.allowed(name, from, ledger.now())
      const found = point === undefined ? null : (versionOf(point) ?? -1)
      const detail = `found ${found ?? 'nothing'}, allowed is ${[...allowed].join(' or ')}`
      return { outcome: allowed.has(found) ? ('good' as const) : ('wrong' as const), detail }
    } catch (error) {
      return { outcome: 'failed' as const, detail: String(error) }
    }
  }

  /** Shard keys, an alias and a collection come and go. */
  async #churn(): Promise<void> {
    const { dice } = this.#options
    const chance = dice.next()
    try {
      if (chance < 0.3) await this.#createKey(`key ${this.#nextKey++}`)
      else if (chance < 0.6) await this.#dropKey()
      else if (chance < 0.9) await this.#point(dice.oneOf(NAMED))
      // A backup of all collections cannot complete while one of them is being deleted.
      else await this.#replacePassing()
    } catch {
      this.writes.failed += 1
    }
  }

  async #replacePassing(): Promise<void> {
    if (this.#areas.some(({ collection }) => collection === PASSING)) await this.drop(PASSING)
    else await this.#createPlain(PASSING)
  }

  async #dropKey(): Promise<void> {
    const area = this.#areas.find(({ key }) => key?.startsWith('key ') === true)
    if (area === undefined) return
    this.#areas = this.#areas.filter((one) => one !== area)
    const path = `${pathOf(KEYED)}/shards/delete?timeout=10`
    await this.#forget([area], () => ask(this.#url(), 'POST', path, { shard_key: area.key }))
  }

  /** Notes the points as deleted by one call. */
  async #forget(areas: readonly Area[], call: () => Promise<unknown>): Promise<void> {
    const { ledger } = this.#options
    const names = areas.flatMap((area) => ledger.names(area.collection).filter(isIn(area)))
    const writes = names.map((name) => ledger.begin(name, null))
    await call()
    for (const write of writes) write.acknowledge()
  }

  async #createPlain(collection: string, attempt: Attempt = once): Promise<void> {
    const { shards, replicas } = this.#options
    const body = { ...VECTORS, shard_number: shards, replication_factor: replicas }
    await attempt(() => ask(this.#url(), 'PUT', `${pathOf(collection)}?timeout=10`, body))
    this.#areas.push({ collection, live: new Map() })
  }

  async #createKeyed(): Promise<void> {
    const { replicas } = this.#options
    const body = { ...VECTORS, sharding_method: 'custom', shard_number: 1 }
    await ask(this.#url(), 'PUT', `${pathOf(KEYED)}?timeout=10`, {
      ...body,
      replication_factor: replicas,
    })
  }

  async #createKey(key: string, attempt: Attempt = once): Promise<void> {
    const path = `${pathOf(KEYED)}/shards?timeout=10`
    await attempt(() => ask(this.#url(), 'PUT', path, { shard_key: key }))
    this.#areas.push({ collection: KEYED, key, live: new Map() })
  }

  /** Lets the alias name a collection. */
  async #point(collection: (typeof NAMED)[number], attempt: Attempt = once): Promise<void> {
    const write = this.#options.ledger.begin(ALIAS_NAME, NAMED.indexOf(collection))
    const create = { create_alias: { collection_name: collection, alias_name: ALIAS } }
    await attempt(() =>
      ask(this.#url(), 'POST', '/collections/aliases?timeout=10', { actions: [create] }),
    )
    write.acknowledge()
  }

  async #upsert(area: Area, ids: readonly number[], waits = true): Promise<void> {
    if (ids.length === 0) return
    const { ledger } = this.#options
    this.#version += 1
    const version = this.#version
    const points = ids.map((id) => pointOf(id, version))
    const writes = ids.map((id) => ledger.begin(this.#nameOf(area, id), version))
    for (const id of ids) area.live.delete(id)
    if (!(await this.#did('PUT', upsertPath(area, waits), { points, ...keyOf(area) }))) return
    this.#written(area, waits, () => {
      for (const write of writes) write.acknowledge()
      for (const id of ids) area.live.set(id, version)
    })
  }

  async #delete(area: Area, ids: readonly number[], waits = true): Promise<void> {
    if (ids.length === 0) return
    const { ledger } = this.#options
    const writes = ids.map((id) => ledger.begin(this.#nameOf(area, id), null))
    for (const id of ids) area.live.delete(id)
    const body = { points: ids, ...keyOf(area) }
    if (!(await this.#did('POST', deletePath(area, waits), body))) return
    this.#written(area, waits, () => {
      for (const write of writes) write.acknowledge()
    })
  }

  #waits(): boolean {
    const { queuedPart = 0, dice } = this.#options
    return queuedPart === 0 || dice.next() >= queuedPart
  }

  #written(area: Area, waits: boolean, confirm: () => void): void {
    if (waits) {
      confirm()
      return
    }
    this.queued.written += 1
    this.#queue.push({ area, confirm })
  }

  /**
   * A deletion by filter reaches every replica of every shard, and each applies what was queued before it first.
   * This one deletes nothing. What it cannot confirm stays in the queue.
   */
  async #confirmQueued(): Promise<void> {
    // Deleted with their shard key or collection.
    this.#queue = this.#queue.filter(({ area }) => this.#areas.includes(area))
    for (const area of new Set(this.#queue.map((one) => one.area))) {
      const filter = { must: [{ has_id: [NEVER_WRITTEN] }] }
      const body = { filter, ...keyOf(area) }
      const failure = await this.#tryWrite('POST', deletePath(area, true), body)
      if (failure !== undefined) continue
      const applied = this.#queue.filter((one) => one.area === area)
      this.#queue = this.#queue.filter((one) => one.area !== area)
      this.queued.confirmed += applied.length
      for (const { confirm } of applied) confirm()
    }
  }

  async #did(method: string, path: string, body: object): Promise<boolean> {
    const begun = performance.now()
    const isDone = (await this.#tryWrite(method, path, body)) === undefined
    this.writes[isDone ? 'good' : 'failed'] += 1
    if (isDone) this.writeLatencies.push(performance.now() - begun)
    if (isDone || this.#options.repeatsWrites !== true) return isDone
    await pause(RETRY_MS)
    const failure = await this.#tryWrite(method, path, body)
    if (failure === undefined) return true
    this.failedTwice.writes += 1
    this.repeatedFailures.push(`${method} ${path}: ${failure}`)
    return false
  }

  /** Why it was not acknowledged; undefined if it was. */
  async #tryWrite(method: string, path: string, body: object): Promise<string | undefined> {
    try {
      const result = await ask(this.#url(), method, path, body, WRITE_MS)
      const { status } = result as { status?: string }
      // "acknowledged" alone means that it is queued.
      const isEnough = status === 'completed' || (status === 'acknowledged' && isQueued(path))
      return isEnough ? undefined : `status ${status}`
    } catch (error) {
      return String(error)
    }
  }

  #nameOf(area: Area, id: number): PointName {
    return { collection: area.collection, ...keyed(area), id }
  }

  #newIds(count: number): number[] {
    return Array.from({ length: count }, () => this.#nextId++)
  }

  #some({ live }: Area, count: number): number[] {
    const ids = [...live.keys()]
    const { dice } = this.#options
    const chosen = Array.from({ length: count }, () => ids[dice.between(0, ids.length - 1)])
    return [...new Set(chosen.filter((id) => id !== undefined))]
  }

  #url(): string {
    const urls = this.#options.urls()
    return urls[this.#options.dice.between(0, urls.length - 1)] ?? ''
  }
}

function isIn(area: Area) {
  return (name: PointName) => name.collection === area.collection && name.key === area.key
}

function upsertPath({ collection }: Area, waits: boolean): string {
  return `${pathOf(collection)}/points?wait=${waits}`
}

function deletePath({ collection }: Area, waits: boolean): string {
  return `${pathOf(collection)}/points/delete?wait=${waits}`
}

function isQueued(path: string): boolean {
  return path.endsWith('?wait=false')
}

function keyed({ key }: { key?: string | undefined }): { key?: string } {
  return key === undefined ? {} : { key }
}

function keyOf({ key }: Area): { shard_key?: string } {
  return key === undefined ? {} : { shard_key: key }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
