/** Makes, changes and removes payload indexes, and tells what could not be done. */
import { EngineError, NotReady, Rejected } from '../../crds/errors.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { indexBody } from '../../crds/rules/bodies.ts'
import { normalPath } from '../../crds/rules/json-path.ts'
import { ignoredBefore } from './align-config.ts'
import { doubledField, indexDifferences, indexPlan, type IndexPlan } from './indexes.ts'
import { appears, type Pass } from './one-pass.ts'
import { waiting, type Outcome } from './outcome.ts'
import { isTransient } from './writes.ts'

interface Problem {
  reason: string
  message: string
}

export interface AlignedIndexes {
  info: CollectionInfo
  managed: string[]
  ignored: string[]
  problems: Problem[]
  /** Something is still to be made, or is being built. */
  pending?: Outcome
}

const SOON_SECONDS = 1
const BUILD_CHECK_SECONDS = 10

export async function putIndexesRight(
  pass: Pass,
  info: CollectionInfo,
  version: string,
): Promise<AlignedIndexes> {
  const wanted = pass.collection.spec.payloadIndexes ?? []
  const doubled = doubledField(wanted)
  if (doubled !== undefined) {
    throw new Rejected(`payloadIndexes: ${doubled.join(' and ')} are the same field`)
  }
  const known = {
    managed: pass.collection.status?.payloadIndexes ?? [],
    ignored: ignoredBefore(pass.collection, version),
  }
  const planFor = (live: CollectionInfo) => indexPlan(wanted, live.payload_schema, known)
  const plan = planFor(info)
  const writes = await write(pass, plan)
  const { refused, made } = writes
  const isDone = (live: CollectionInfo) => leftOf(planFor(live), refused).length === 0
  const after =
    writes.count === 0 ? info : await appears(pass, (live) => live === undefined || isDone(live))
  if (after === undefined) throw new NotReady(`collection ${pass.name} was deleted meanwhile`)
  if (writes.doubt !== undefined && !isDone(after)) throw writes.doubt

  const last = after === info ? plan : planFor(after)
  // Made as declared, and yet not as declared: the engine does not know the parameter.
  const ignored = last.remake
    .filter((index) => made.has(index.field))
    .flatMap((index) => {
      const live = after.payload_schema[normalPath(index.field)]
      return live === undefined ? [] : indexDifferences(index, live).map(({ path }) => path)
    })
  const pending = pendingOf(last, refused)
  return {
    info: after,
    managed: [...new Set([...last.managed, ...last.remove])].toSorted(),
    ignored: [...new Set([...last.ignored, ...ignored])],
    problems: [...refused.values()],
    ...(pending !== undefined && { pending }),
  }
}

interface Written {
  count: number
  /** Fields whose index the engine took. */
  made: Set<string>
  /** Fields whose index the engine refused for good, with its words. */
  refused: Map<string, Problem>
  doubt?: EngineError | undefined
}

async function write({ writes }: Pass, plan: IndexPlan): Promise<Written> {
  const written: Written = { count: 0, made: new Set(), refused: new Map() }
  for (const field of plan.remove) {
    written.doubt = (await writes.deleteIndex(field)) ?? written.doubt
    written.count += 1
  }
  // Putting another one replaces it (engine 1.14.1 and later), and one that is refused loses nothing:
  // an index that were deleted first would be gone for good.
  for (const index of [...plan.create, ...plan.remake]) {
    try {
      written.doubt = (await writes.putIndex(indexBody(index))) ?? written.doubt
      written.made.add(index.field)
      written.count += 1
    } catch (error) {
      if (!(error instanceof EngineError) || isTransient(error)) throw error
      const message = `payloadIndexes[${index.field}]: ${error.message}`
      written.refused.set(index.field, { reason: 'EngineRefused', message })
    }
  }
  return written
}

/** What is still to be done, but for what the engine refuses. */
function leftOf(plan: IndexPlan, refused: ReadonlyMap<string, Problem>): string[] {
  const fields = [...plan.create, ...plan.remake].map(({ field }) => field)
  return [...fields.filter((field) => !refused.has(field)), ...plan.remove]
}

function pendingOf(
  { announce, create, remove }: IndexPlan,
  refused: ReadonlyMap<string, Problem>,
): Outcome | undefined {
  if (announce.length > 0) {
    const message = `${announce.length} payload indexes are about to be made`
    return waiting('IndexesPending', message, SOON_SECONDS)
  }
  const building = create.map(({ field }) => field).filter((field) => !refused.has(field))
  if (building.length + remove.length === 0) return undefined
  const message = `payload indexes not settled yet: ${[...building, ...remove].join(', ')}`
  return waiting('IndexesPending', message, BUILD_CHECK_SECONDS)
}
