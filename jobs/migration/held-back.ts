/**
 * A collection that the first pod of a run creates builds no index until its points are copied: indexing
 * takes a third of the time of writing. It is put back when the copy ends, however it ends, and by the next
 * pod before anything else. Pods after the first change nothing, so that the last one, whatever becomes of
 * it, leaves nothing behind.
 */
import { EngineError } from '../../crds/errors.ts'
import type { CollectionConfig } from '../../crds/rules/answers.ts'
import { wordsOf } from '../clients/call.ts'
import { paced } from './pace.ts'
import type { Work } from './work.ts'

/** What is still done when the Job is ended has so long. */
const CLEAN_UP_MS = 10_000

/** The threshold to put back; undefined where indexing is not held back. */
export function thresholdToHold({ optimizer_config }: CollectionConfig, { tools }: Work) {
  const { indexing_threshold: threshold } = optimizer_config
  // Whatever was reported before: an earlier pod worked.
  if (tools.reporter.earlier !== undefined) return undefined
  // Zero would be never; what the source does not say cannot be put back.
  return typeof threshold === 'number' && threshold > 0 ? threshold : undefined
}

export function withoutIndexing(config: CollectionConfig): CollectionConfig {
  return { ...config, optimizer_config: { ...config.optimizer_config, indexing_threshold: 0 } }
}

/** Puts back what the pod before this one held back, and could not put back itself. */
export async function putBackEarlier(work: Work): Promise<void> {
  const { target, tools } = work
  const { position, collections } = tools.reporter.earlier?.migration ?? {}
  if (position?.indexingThreshold === undefined) return
  const { collection, indexingThreshold } = position
  const known = collections?.find(({ name }) => name === collection)
  const name = known?.targetName ?? collection
  try {
    const live = await paced(work, () => target.collections.collectionInfo(name, tools.signal))
    if (live !== undefined) await putBack(name, indexingThreshold, work)
  } catch (error) {
    throw withWords(error, name, indexingThreshold)
  }
}

export async function putBack(name: string, threshold: number, work: Work): Promise<void> {
  const { target, tools } = work
  const body = { optimizers_config: { indexing_threshold: threshold } }
  await paced(work, () => target.collections.patchCollection(name, body, tools.signal))
}

/** Once and not for long: perhaps nobody answers. Answers with the error, and with what could not be put back. */
export async function putBackAfter(error: unknown, name: string, work: Work): Promise<unknown> {
  const { target, tools, tally } = work
  const { indexingThreshold: threshold } = tally.position ?? {}
  if (threshold === undefined) return error
  const body = { optimizers_config: { indexing_threshold: threshold } }
  try {
    const signal = AbortSignal.timeout(CLEAN_UP_MS)
    await target.collections.patchCollection(name, body, signal)
    return error
  } catch (reason) {
    if (reason instanceof EngineError && reason.status === 404) return error
    tools.log.warn({ collection: name, reason: wordsOf(reason), body }, 'settings not put back')
    return withWords(error, name, threshold)
  }
}

/** An error that also says what is left on the target. */
function withWords(error: unknown, name: string, threshold: number): unknown {
  if (!(error instanceof EngineError)) return error
  const left = `indexing_threshold of ${name} is still 0 on the target: set it to ${threshold}`
  const { status } = error
  return new EngineError(`${error.message}; ${left}`, {
    cause: error,
    ...(status !== undefined && { status }),
  })
}
