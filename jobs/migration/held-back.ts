/**
 * What a collection that this migration made does without while points are copied: limits of strict
 * mode are for those who use it, and indexes that are built meanwhile take the time of writing
 * (facts 13). It is given back when the copying ends, however it ends.
 */
import type { CollectionConfig } from '../../crds/rules/answers.ts'
import type { CollectionBody } from '../../crds/rules/bodies.ts'
import { declared } from '../../crds/rules/objects.ts'
import { wordsOf } from '../clients/call.ts'
import { paced } from './pace.ts'
import type { Work } from './work.ts'

/** What is still done when the Job is ended has so long. */
const CLEAN_UP_MS = 10_000

/** A collection at the target, and its configuration at the source. */
interface Made {
  name: string
  config: CollectionConfig
}

/** The configuration it is made with. */
export function withHeldBack(config: CollectionConfig): CollectionConfig {
  const optimizers = isIndexing(config) && { ...config.optimizer_config, indexing_threshold: 0 }
  return {
    ...config,
    strict_mode_config: null,
    ...(optimizers !== false && { optimizer_config: optimizers }),
  }
}

/** Holds it back once more: a pod before this one may have given it back. */
export async function holdBack({ name, config }: Made, work: Work): Promise<void> {
  const { target, tools } = work
  const body: CollectionBody = {
    ...(declared(config.strict_mode_config ?? {}) && { strict_mode_config: { enabled: false } }),
    ...(isIndexing(config) && { optimizers_config: { indexing_threshold: 0 } }),
  }
  if (Object.keys(body).length === 0) return
  await paced(work, () => target.collections.patchCollection(name, body, tools.signal))
}

/** Copies, and gives back what was held back. */
export async function whileHeldBack<Result>(
  { name, config }: Made,
  work: Work,
  copy: () => Promise<Result>,
): Promise<Result> {
  const { target, tools } = work
  const body = givenBack(config)
  const giveBack = (signal: AbortSignal) => target.collections.patchCollection(name, body, signal)
  if (Object.keys(body).length === 0) return copy()
  let result: Result
  try {
    result = await copy()
  } catch (error) {
    // Once and not for long: it is the copying that failed, and perhaps because nobody answers.
    await giveBack(AbortSignal.timeout(CLEAN_UP_MS)).catch((reason: unknown) => {
      tools.log.warn({ collection: name, reason: wordsOf(reason), body }, 'settings not given back')
    })
    throw error
  }
  await paced(work, () => giveBack(tools.signal))
  return result
}

function givenBack(config: CollectionConfig): CollectionBody {
  const strict = declared(config.strict_mode_config ?? {})
  const { indexing_threshold } = config.optimizer_config
  return {
    ...(strict !== undefined && { strict_mode_config: strict }),
    ...(isIndexing(config) && { optimizers_config: { indexing_threshold } }),
  }
}

/** Zero would be never; what the source does not say cannot be given back. */
function isIndexing({ optimizer_config: { indexing_threshold: threshold } }: CollectionConfig) {
  return typeof threshold === 'number' && threshold > 0
}
