/**
 * `migration run`: collections copied point by point, one after the other, into a managed cluster. A
 * collection that fails does not stop the others; an attempt that was killed is gone on with.
 */
import { Type } from '@sinclair/typebox'
import type {
  MigratedCollection,
  MigrationPlan,
  MigrationPosition,
} from '../../crds/migration-command.ts'
import { EngineError } from '../../crds/errors.ts'
import { API_VERSION } from '../../crds/names.ts'
import { isTold, reasonOf } from '../failures.ts'
import { Patience, isFull, isUntrusted, patiently } from '../patience.ts'
import { Gone, type Report } from '../report.ts'
import type { Outcome, Tools } from '../tools.ts'
import { chosenCollections, newCollections, refuseTwin } from './chosen.ts'
import { CopiedIds } from './copied-ids.ts'
import { copyPoints } from './copy.ts'
import { untilReadable } from './deferred.ts'
import { isFinished } from './finished.ts'
import { putBack, putBackAfter, putBackEarlier } from './held-back.ts'
import { prove, type Proof } from './proof.ts'
import { limitsOf, placesOf, readShape, refuseDeleted, type Shape } from './shape.ts'
import { Tally } from './tally.ts'
import { prepareTarget } from './target.ts'
import { Order, sidesOf, targetNameOf, type Work } from './work.ts'

export async function run(plan: MigrationPlan, tools: Tools): Promise<Outcome> {
  const report = await attempt(plan, tools)
  tools.log.info({ state: report.state, error: report.migration?.error }, report.message ?? '')
  await tools.reporter.ended(report)
  return report.state
}

type End = Report & { state: 'Done' | 'Failed' }

const Own = Type.Object({ spec: Order })

async function attempt(plan: MigrationPlan, tools: Tools): Promise<End> {
  const earlier = tools.reporter.earlier?.migration
  const startedAt = earlier?.startedAt ?? tools.time.now().toISOString()
  let tally = new Tally(tools, startedAt, earlier?.collections)
  try {
    const order = await readOrder(plan, tools)
    const start = { plan, tools, order, ...sidesOf(plan, tools), patience: new Patience() }
    const collections = await begin({ ...start, tally })
    const stood = earlierPosition(tools)
    tally = new Tally(tools, startedAt, collections, stood)
    const work: Work = { ...start, tally }
    await tally.noted()
    // The one that was begun comes first: where it stands would be forgotten once another one is begun.
    const isBegun = ({ name }: MigratedCollection) => name === stood?.collection
    const rest = collections.filter((collection) => !isBegun(collection))
    for (const collection of [...collections.filter(isBegun), ...rest]) {
      await migrate(collection, work)
    }
    await migrateNew(work)
    await tally.told()
    return endOf(tally)
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = explained(error.message)
    const result = tally.result()
    return {
      state: 'Failed',
      reason: reasonOf(error),
      message,
      migration: { ...result, error: result.error ?? message },
    }
  }
}

async function readOrder(plan: MigrationPlan, { kubernetes }: Tools): Promise<Order> {
  const { resource, namespace, name } = plan
  const collection = { apiVersion: API_VERSION, plural: resource, namespace }
  const found = await kubernetes.get(collection, name, Own)
  if (found === undefined) throw new Gone(`${resource} ${namespace}/${name} is gone`)
  return found.spec
}

/** The collections to copy, with their points; those an earlier pod ended with stay as they are. */
async function begin(work: Work): Promise<MigratedCollection[]> {
  const { target, tools } = work
  await patiently(work, async () => {
    if (await target.engine.readyz(tools.signal)) return
    throw new EngineError(
      `target cluster not ready: ${target.engine.node} does not answer /readyz with 200`,
    )
  })
  await putBackEarlier(work)
  const known = new Map(
    tools.reporter.earlier?.migration?.collections.map((collection) => [
      collection.name,
      collection,
    ]),
  )
  work.tally.asks(calledSource(work))
  const chosen = await chosenCollections(work, known)
  const { finished } = tools.reporter.earlier?.migration ?? {}
  return chosen.map((collection) => {
    const before = known.get(collection.name)
    if (before !== undefined && isOver(before)) return before
    if (!isFinished(collection.name, finished)) return collection
    return { ...collection, status: 'Completed', pointsCopied: collection.pointsTotal ?? 0 }
  })
}

/** A source that makes collections all the time never ends. */
const MAX_LISTINGS = 10

/** Collections that were created on the source meanwhile. */
async function migrateNew(work: Work): Promise<void> {
  const { tally, tools } = work
  for (let listing = 1; ; listing += 1) {
    const added = await newCollections(work)
    if (added.length === 0) return
    const names = added.map(({ name }) => name)
    tools.log.info({ collections: names }, 'collections were created on the source meanwhile')
    tally.add(added)
    for (const collection of added) {
      if (listing < MAX_LISTINGS) await migrate(collection, work)
      else tally.failed(collection.name, `${collection.name}: ${TOO_LATE}`)
    }
    if (listing === MAX_LISTINGS) return
  }
}

const TOO_LATE = 'it was created on the source while others that were created meanwhile were copied'

/** A cluster by its name, another engine by its address. */
function calledSource({ plan, source }: Work): string {
  if (!('cluster' in plan.source)) return source.engine.node
  const { namespace, name } = plan.source.cluster
  return `cluster ${namespace}/${name}`
}

function isOver({ status }: MigratedCollection): boolean {
  return status === 'Completed' || status === 'Failed'
}

async function migrate(collection: MigratedCollection, work: Work): Promise<void> {
  if (isOver(collection)) return
  const { name } = collection
  const { tally, tools } = work
  try {
    refuseTwin(name, work)
    const proof = await copyAndProve(name, work)
    tools.log.info({ collection: name }, `collection ${name}: ${proof}`)
    tally.completed(name, proof)
  } catch (error) {
    tools.signal.throwIfAborted()
    if (!isTold(error)) throw error
    const message = `${name}: ${explained(error.message)}`
    tools.log.error({ collection: name, reason: message }, `collection ${name} failed`)
    tally.failed(name, message)
  }
  tally.tell()
  await tally.told()
}

async function copyAndProve(name: string, work: Work): Promise<string> {
  const { order, tools } = work
  const stood = earlierPosition(tools)
  const targetName = targetNameOf(name, order)
  const seen = [{ side: work.source, name }]
  try {
    await untilReadable(work.source, name, work)
    const shape = await readShape(name, work)
    const position = await prepareTarget(
      shape,
      stood?.collection === name ? stood : undefined,
      work,
    )
    seen.push({ side: work.target, name: targetName })
    const { said, difference } = await copyFrom(position, shape, work)
    if (difference !== undefined) throw new EngineError(difference)
    return said
  } catch (error) {
    const told = await putBackAfter(error, targetName, work)
    tools.signal.throwIfAborted()
    for (const collection of seen) await refuseDeleted(told, collection, work)
    throw told
  }
}

/** Where the pod before this one was; what it held back is put back by now. */
function earlierPosition({ reporter }: Tools): MigrationPosition | undefined {
  const { position } = reporter.earlier?.migration ?? {}
  if (position === undefined) return undefined
  const { indexingThreshold: _, ...rest } = position
  return rest
}

async function copyFrom(position: MigrationPosition, shape: Shape, work: Work): Promise<Proof> {
  const { tally, tools } = work
  const places = placesOf(shape, work)
  tally.begin(position)
  tools.log.info({ ...position }, tally.line())
  const { copied: most, wait } = await limitsOf(shape, work)
  // What a target without points has in the end can be compared whole.
  const isFirst = earlierPosition(tools)?.collection !== shape.name
  const ids = position.before === 0 ? undefined : new CopiedIds(isFirst)
  const load = { places, points: shape.info.points_count ?? 0, most, wait, ids }
  const copied = await copyPoints(position, load, work)
  tally.copied(shape.name, copied)
  await release(position, targetNameOf(shape.name, work.order), work)
  tools.log.info({ collection: shape.name, points: copied }, 'points copied')
  return prove(shape.name, { position, ids }, work)
}

/** From here on nothing is to be put back. */
async function release(position: MigrationPosition, name: string, work: Work): Promise<void> {
  const { indexingThreshold: threshold, ...rest } = { ...position, ...work.tally.position }
  if (threshold === undefined) return
  await putBack(name, threshold, work)
  work.tally.begin(rest)
}

/** What a person can do about it, where the words do not say. */
function explained(message: string): string {
  if (isFull(message)) return `${message} (the volume of the target is full: grow it)`
  if (isUntrusted(message)) return `${message} (a source behind a private CA needs caSecretRef)`
  return message
}

function endOf(tally: Tally): End {
  const migration = tally.result()
  const message = tally.summary()
  if (migration.failed === 0) return { state: 'Done', message, migration }
  return { state: 'Failed', reason: 'MigrationFailed', message, migration }
}
