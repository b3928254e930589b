/**
 * One pass over a collection: the recipe of facts 2.4. It reads first, writes only what differs, and
 * never deletes a collection or a vector. What it may not change, it names.
 */
import type { VecCollection } from '../../crds/collection.ts'
import { EngineError, KubernetesError, NotReady, Rejected } from '../../crds/errors.ts'
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import { createBody } from '../../crds/rules/bodies.ts'
import { putAliasesRight } from './align-aliases.ts'
import { putIndexesRight } from './align-indexes.ts'
import { ignoredBefore, patchDrift } from './align-config.ts'
import { clusterOf } from './claims.ts'
import { describe, immutableDifferences } from './mismatch.ts'
import {
  internalError,
  retryAfter,
  seen,
  verdict,
  waiting,
  type Facts,
  type Outcome,
} from './outcome.ts'
import { appears, passOf, type Parts, type Pass } from './one-pass.ts'
import { replicated } from './replicas.ts'
import { isTransient } from './writes.ts'

export type Task = Parts

/** Value of the annotation accept-risk on a VecCollection. */
const EMPTY_COLLECTION = 'empty-collection'

export async function reconcile(task: Task, signal: AbortSignal): Promise<Outcome> {
  const pass = passOf(task, signal)
  const learned: Learned = {}
  try {
    return await task.shared.inTurn(() => steps(pass, learned), signal)
  } catch (error) {
    signal.throwIfAborted()
    return { ...troubled(pass, error), ...learned }
  }
}

/** What a pass found out before it went wrong: what the engine ignores must not be tried again. */
type Learned = Pick<Outcome, 'facts' | 'recreated'>

async function steps(pass: Pass, learned: Learned): Promise<Outcome> {
  const { collection, name, shared, engine, signal } = pass
  signal.throwIfAborted()
  if (!(await shared.readyz(signal)))
    return waiting('ClusterNotReady', `${clusterName(pass)} not ready`)
  pass.refuseAlias(await shared.aliases(signal))
  const version = await shared.version(signal)
  const found = await engine.collectionInfo(name, signal)
  // Once it was adopted, who came first matters again only before a write.
  if (!isAdopted(collection)) await pass.refuseOwned()
  if (found === undefined && wasFilled(collection)) return missing(pass)
  const live = found ?? (await create(pass, version))
  if (found === undefined && wasSeen(collection)) learned.recreated = true

  const fixed = immutableDifferences(collection.spec, live.config)
  if (fixed.length > 0) {
    const message = fixed.map(describe).join('; ')
    const words = { reason: 'ImmutableFieldMismatch', message }
    // Nothing is changed, so what is under management stays as it was.
    learned.facts = { ...kept(pass, live), ...ignoredOf(collection) }
    return withReplicas(pass, { ...verdict(collection, 'Degraded', words), ...learned })
  }
  const config = await patchDrift(pass, live, version)
  const before = [...ignoredBefore(collection, version)].filter(isIndexPath)
  learned.facts = {
    ...kept(pass, config.info),
    ...ignored(pass, [...config.ignored, ...before], version),
  }
  const indexes = await putIndexesRight(pass, config.info, version)
  const paths = [...config.ignored, ...indexes.ignored].toSorted()
  const { aliases: held } = learned.facts
  learned.facts = {
    ...seen(indexes.info),
    payloadIndexes: indexes.managed,
    ...(held !== undefined && { aliases: held }),
    ...ignored(pass, paths, version),
  }
  const aliases = await putAliasesRight(pass)
  const facts: Facts = { ...learned.facts, aliases: aliases.managed }
  learned.facts = facts
  const problems = [...ignoredProblem(paths, version), ...indexes.problems, ...aliases.problems]
  const { recreated } = learned
  return withReplicas(pass, {
    ...conclusion(pass, problems, indexes.pending),
    ...{ facts, ...(recreated !== undefined && { recreated }) },
  })
}

interface Problem {
  reason: string
  message: string
}

function ignoredProblem(paths: string[], version: string): Problem[] {
  if (paths.length === 0) return []
  const message = `engine ${version} ignores ${paths.join(', ')}`
  return [{ reason: 'FieldsIgnored', message }]
}

function conclusion(pass: Pass, problems: Problem[], pending: Outcome | undefined): Outcome {
  const [first] = problems
  if (first !== undefined) {
    const message = problems.map((problem) => problem.message).join('; ')
    const failed = verdict(pass.collection, 'Failed', { reason: first.reason, message })
    // What waits to be made does not wait for what cannot be.
    const seconds = Math.min(failed.againAfterSeconds, pending?.againAfterSeconds ?? Infinity)
    return { ...failed, againAfterSeconds: seconds }
  }
  if (pending !== undefined) return pending
  const message = 'collection, indexes and aliases match spec'
  return verdict(pass.collection, 'Ready', { reason: 'CollectionReady', message })
}

/** Health is known of what an earlier pass found. */
function wasSeen({ status }: VecCollection): boolean {
  return status?.health !== undefined
}

/** It had points, and nobody has accepted that it comes back empty. */
function wasFilled({ metadata, status }: VecCollection): boolean {
  const accepted = (metadata.annotations?.[ANNOTATIONS.acceptRisk] ?? '').split(',')
  if (accepted.some((risk) => risk.trim() === EMPTY_COLLECTION)) return false
  return (status?.pointsCount ?? 0) > 0
}

/** An empty collection in its place would look as if nothing had happened. */
async function missing(pass: Pass): Promise<Outcome> {
  // A restore that replaces it holds the cluster, and who is older owns the name.
  await pass.writes.check()
  const { collection, name } = pass
  const count = collection.status?.pointsCount ?? 0
  const message = `collection ${name} is gone from the engine; it had ${count} points. Restore a backup, or set the annotation ${ANNOTATIONS.acceptRisk} to ${EMPTY_COLLECTION} to have it created empty`
  return verdict(collection, 'Failed', { reason: 'CollectionMissing', message })
}

async function create(pass: Pass, version: string): Promise<CollectionInfo> {
  const doubt = await pass.writes.create(createBody(pass.collection.spec, version))
  const info = await appears(pass, (found) => found !== undefined)
  if (info !== undefined) return info
  throw doubt ?? new NotReady(`collection ${pass.name} was made and is not visible yet`)
}

async function withReplicas(pass: Pass, outcome: Outcome): Promise<Outcome> {
  const { collection, engine, name, signal } = pass
  const factor = collection.spec.replicationFactor
  if (factor === undefined) return outcome
  const copies = await engine.collectionCluster(name, signal)
  return { ...outcome, replicated: replicated(factor, copies) }
}

function ignored({ collection }: Pass, paths: string[], engineVersion: string): Facts {
  const { generation } = collection.metadata
  return paths.length === 0 ? {} : { ignored: { generation, engineVersion, paths } }
}

function isIndexPath(path: string): boolean {
  return path.startsWith('payloadIndexes[')
}

function kept({ collection: { status = {} } }: Pass, live: CollectionInfo): Facts {
  const { payloadIndexes, aliases } = status
  return {
    ...seen(live),
    ...(payloadIndexes !== undefined && { payloadIndexes }),
    ...(aliases !== undefined && { aliases }),
  }
}

function ignoredOf({ status }: VecCollection): Facts {
  return status?.ignored === undefined ? {} : { ignored: status.ignored }
}

function isAdopted({ status }: VecCollection): boolean {
  return status?.phase === 'Ready' || status?.phase === 'Degraded'
}

/** What went wrong: to be tried again, for people to mend, or a defect of ours. */
function troubled(pass: Pass, error: unknown): Outcome {
  const { collection, shared } = pass
  if (error instanceof NotReady) return waiting('Waiting', error.message)
  if (error instanceof Rejected) {
    return verdict(collection, 'Failed', { reason: 'Conflict', message: error.message })
  }
  if (error instanceof EngineError) {
    if (error.status === undefined && error.cause !== undefined) shared.leaveAlone()
    if (isTransient(error)) return waiting('EngineNotAnswering', error.message, retryAfter(error))
    return verdict(collection, 'Failed', { reason: 'EngineRefused', message: error.message })
  }
  if (error instanceof KubernetesError) return waiting('KubernetesNotAnswering', error.message)
  return internalError(collection, error)
}

function clusterName({ collection }: Pass): string {
  const { namespace, name } = clusterOf(collection)
  return `cluster ${namespace}/${name}`
}
