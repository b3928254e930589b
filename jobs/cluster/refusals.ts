/**
 * What must not happen just because a number was changed: versions that the engine cannot go through,
 * and nodes that leave while they hold shards. Each can be accepted by annotation.
 */
import { Type, type Static } from '@sinclair/typebox'
import type { Risk, UpgradePlan } from '../../crds/command.ts'
import { StatefulSet } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import type { Tools } from '../tools.ts'
import { shardsOn } from './shards.ts'

/** Of a label or an image: what stands at its end is looked at, and anybody may write it. */
const MAX_VERSION = 256

export interface Refusal {
  reason: 'VersionSkipped' | 'VersionDowngraded' | 'ShardsWouldBeLost'
  message: string
}

const Images = Type.Object({
  spec: Type.Object({
    template: Type.Object({
      spec: Type.Object({ containers: Type.Array(Type.Object({ image: Type.String() })) }),
    }),
  }),
})

/** The StatefulSet as it is, with the images of its pods. */
export const LiveStatefulSet = Type.Composite([StatefulSet, Images])
export type LiveStatefulSet = Static<typeof LiveStatefulSet>

/** Why this plan must not be applied to what runs now; undefined when it may be. */
export async function refusalOf(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  tools: Tools,
): Promise<Refusal | undefined> {
  return versionRefusal(plan, live) ?? (await shardRefusal(plan, live, tools))
}

export function versionRefusal(plan: UpgradePlan, live: LiveStatefulSet): Refusal | undefined {
  const from = liveVersion(live)
  if (from === undefined) return undefined
  const [major, minor] = numbers(from)
  const [newMajor, newMinor] = numbers(plan.version)
  // Patch releases of one minor version read each other's files: a bad one can be taken back.
  const isBack = newMajor < major || (newMajor === major && newMinor < minor)
  const change = `spec.version: ${from} -> ${plan.version}`
  if (isBack && !plan.acceptedRisks.includes('downgrade')) {
    return {
      reason: 'VersionDowngraded',
      message: `${change} goes back by a minor version, which the engine does not support; ${accept('downgrade')}`,
    }
  }
  const isSkip = newMajor > major || (newMajor === major && newMinor > minor + 1)
  if (isSkip && !plan.acceptedRisks.includes('version-skip')) {
    return {
      reason: 'VersionSkipped',
      message: `${change} skips a minor version, which the engine does not support: go one minor version at a time; ${accept('version-skip')}`,
    }
  }
  return undefined
}

/** Version of the engine that runs, as the chart labelled it; else that of the chart; else of the image. */
export function liveVersion({ metadata, spec }: LiveStatefulSet): string | undefined {
  const [container] = spec.template.spec.containers
  const candidates = [
    metadata.labels?.['app.kubernetes.io/version'],
    metadata.labels?.['helm.sh/chart'],
    container?.image,
  ]
  for (const text of candidates) {
    const version = /[:-]?v?(\d+\.\d+\.\d+[^:/]*)$/.exec((text ?? '').slice(-MAX_VERSION))?.[1]
    if (version !== undefined) return version
  }
  return undefined
}

/**
 * The engine moves nothing by itself: a node that leaves takes its shards along. An engine that does
 * not answer throws NotReady, for silence proves nothing.
 */
async function shardRefusal(
  plan: UpgradePlan,
  live: LiveStatefulSet,
  tools: Tools,
): Promise<Refusal | undefined> {
  const before = live.spec.replicas ?? 1
  const { replicas } = plan.spec
  if (replicas >= before || plan.acceptedRisks.includes('shard-loss')) return undefined
  tools.log.info({ before, replicas }, 'fewer replicas: asks the engine for shards on the others')
  const cluster = {
    namespace: plan.namespace,
    name: plan.name,
    replicas: before,
    tls: plan.engine.tls,
  }
  const held = await shardsOn(
    { before, after: replicas },
    (ordinal) => tools.engineOn(cluster, ordinal),
    tools.signal,
  )
  if (held.length === 0) return undefined
  return {
    reason: 'ShardsWouldBeLost',
    message: `spec.replicas: ${before} -> ${replicas} removes nodes that hold shards: ${summary(held)}; move them to nodes that stay, or ${accept('shard-loss')}`,
  }
}

const SHOWN = 10

function summary(held: string[]): string {
  const rest = held.length - SHOWN
  return held.slice(0, SHOWN).join(', ') + (rest > 0 ? ` and ${rest} more` : '')
}

function accept(risk: Risk): string {
  return `accept the risk with the annotation ${ANNOTATIONS.acceptRisk}: ${risk}`
}

function numbers(version: string): [major: number, minor: number] {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return [major, minor]
}
