/**
 * Copies the points of one collection, several partitions concurrently. Each partition reads the
 * next page while it writes the previous one, and writes points as the bytes that it has read.
 */
import type { ShardKey } from '../../crds/contract/manifest.ts'
import type { MigrationCheckpoint, MigrationPartition } from '../../crds/contract/migration-job.ts'
import { pageIds, type Page } from '../clients/engine/points.ts'
import { runGroupsConcurrently } from '../retry.ts'
import { BatchWriter, Semaphore, type CopyContext } from './batch-writer.ts'
import type { RunContext } from './context.ts'
import type { CopiedIds } from './copied-ids.ts'
import {
  ByteBudget,
  PageSizer,
  readPage,
  type Partition,
  type ReservedPage,
} from './page-reader.ts'
import { MAX_PARTITIONS, resumePartitions, type CopyInput } from './partitions.ts'
import type { Progress } from './progress.ts'
import { compareShardKeys } from './source-collection.ts'

/**
 * Copies the rest of a collection from a checkpoint and records the ids. Returns the number of
 * points copied, including those of earlier attempts.
 */
export async function copyPoints(
  position: MigrationCheckpoint,
  input: CopyInput & { ids: CopiedIds | undefined },
  context: RunContext,
): Promise<number> {
  const { active, queued } = await resumePartitions(position, input, context)
  const checkpoint = new Checkpoint(position, active, context.progress)
  const abort = new AbortController()
  const shared: CopyContext = {
    wait: input.wait,
    writeSlots: new Semaphore(),
    size: new PageSizer(input.pageSize),
    budget: new ByteBudget(),
    context: withAbort(abort, context),
  }
  const partitions = [...active, ...queued].map((partition) => [partition])
  await runGroupsConcurrently(partitions, MAX_PARTITIONS, async (partition) => {
    checkpoint.start(partition)
    try {
      await copyPartition(partition, shared, {
        onRead: (page) => input.ids?.add(partition.shardKey, pageIds(page)),
        onWritten: (page) => {
          checkpoint.markWritten(partition, page)
        },
      })
    } catch (error) {
      // One failed partition fails the collection: stop the others early.
      abort.abort(error)
      throw error
    }
  })
  return checkpoint.copied
}

/** The same context with a signal that also aborts when a part of the work fails. */
export function withAbort({ signal: aborted }: AbortController, context: RunContext): RunContext {
  const { tools } = context
  return { ...context, tools: { ...tools, signal: AbortSignal.any([tools.signal, aborted]) } }
}

interface CopyListener {
  onRead: (page: Page) => void
  onWritten: (page: Page) => void
}

async function copyPartition(
  partition: Partition,
  shared: CopyContext,
  { onRead, onWritten }: CopyListener,
): Promise<void> {
  const writer = new BatchWriter(partition, shared, onWritten)
  try {
    for await (const page of readPages(partition, shared, writer)) {
      // Record the ids first: a page's memory is freed once it is written.
      onRead(page)
      writer.start(page)
    }
  } finally {
    // Wait until writes in progress have ended, successfully or not, before anything else happens.
    await writer.drain()
  }
}

/** Yields each page once a write slot is free; the next page is already being read by then. */
async function* readPages(
  partition: Partition,
  shared: CopyContext,
  writer: BatchWriter,
): AsyncGenerator<ReservedPage> {
  let next = readPage(partition, partition.offset, shared)
  for (;;) {
    const page = await next
    writer.throwIfFailed()
    await shared.writeSlots.acquire(shared.context.tools.signal)
    if (page.next !== undefined) {
      next = readPage(partition, page.next, shared)
      // The next iteration awaits it. If a write fails first, its rejection must not be unhandled.
      next.catch(() => undefined)
    }
    yield page
    if (page.next === undefined) return
  }
}

export class Checkpoint {
  readonly #progress: Pick<Progress, 'advance'>
  readonly #fields: Omit<MigrationCheckpoint, 'lanes' | 'begun' | 'copied'>
  readonly #active = new Map<Partition, MigrationPartition>()
  #begun: ShardKey | undefined
  #copied: number

  /**
   * Partitions in `active` are in progress from the start: one that is missing in the first report
   * would be lost after a crash.
   */
  constructor(
    position: MigrationCheckpoint,
    active: readonly Partition[],
    progress: Pick<Progress, 'advance'>,
  ) {
    const { collection, isOurs, targetUuid, before, indexingThreshold, begun, copied } = position
    this.#fields = {
      ...{ collection, isOurs, before },
      ...(targetUuid !== undefined && { targetUuid }),
      ...(indexingThreshold !== undefined && { indexingThreshold }),
    }
    this.#begun = begun
    this.#copied = copied
    this.#progress = progress
    for (const partition of active) this.start(partition)
  }

  /** Points that are known to be written. */
  get copied(): number {
    return this.#copied
  }

  start(partition: Partition): void {
    const { shardKey } = partition
    if (!this.#active.has(partition)) this.#active.set(partition, toRecord(partition))
    if (shardKey === undefined) return
    if (this.#begun === undefined || compareShardKeys(shardKey, this.#begun) > 0)
      this.#begun = shardKey
  }

  /** Called when a page and all previous pages of its partition are written. */
  markWritten(partition: Partition, { count, next }: Page): void {
    this.#copied += count
    if (next === undefined) this.#active.delete(partition)
    else this.#active.set(partition, toRecord({ ...partition, offset: next }))
    this.#progress.advance({
      ...this.#fields,
      lanes: [...this.#active.values()],
      ...(this.#begun !== undefined && { begun: this.#begun }),
      copied: this.#copied,
    })
  }
}

function toRecord({ shardKey, offset, until }: Partition): MigrationPartition {
  return {
    ...(shardKey !== undefined && { shardKey }),
    ...(offset !== undefined && { offset }),
    ...(until !== undefined && { until }),
  }
}
