/**
 * `cluster upgrade`: installs the engine's chart for a VecCluster, or upgrades what is there. Its
 * report tells what was applied, so that the hook knows when the next run is due.
 */
import type { Applied, UpgradePlan } from '../../crds/command.ts'
import { HelmError, NotReady } from '../../crds/errors.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import type { Report } from '../report.ts'
import type { Outcome, Tools } from '../tools.ts'
import { LiveStatefulSet, refusalOf } from './refusals.ts'
import { healRelease, waitForOthers } from './release.ts'

export async function upgrade(plan: UpgradePlan, tools: Tools): Promise<Outcome> {
  const { release, namespace } = plan
  await waitForOthers(release, namespace, tools)
  await healRelease(release, namespace, tools)

  const report = await attempt(plan, tools)
  const annotations = { [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(plan.spec) }
  await tools.reporter.ended(report, report.state === 'Done' ? annotations : {})
  return report.state
}

type End = Report & { state: Outcome }

/** What a person can mend is the end of an attempt, told in the report; anything else is a crash. */
async function attempt(plan: UpgradePlan, tools: Tools): Promise<End> {
  const { helm, log, signal } = tools
  const { release, version, namespace } = plan
  try {
    const live = await statefulSet(plan, tools)
    const refusal = live && (await refusalOf(plan, live, tools))
    if (refusal !== undefined) {
      log.warn(refusal, 'refused before helm')
      return { state: 'Refused', ...refusal }
    }
    log.info({ release, version, namespace, chart: plan.chart }, 'helm upgrade --install')
    log.info({ release, output: await helm.upgrade(plan, signal) }, 'helm is done')
    return { state: 'Done', applied: await appliedBy(plan, tools) }
  } catch (error) {
    const reason = FAILURES.find(([kind]) => error instanceof kind)?.[1]
    if (reason === undefined || !(error instanceof Error)) throw error
    log.error({ release, reason, message: error.message }, 'attempt failed')
    return { state: 'Failed', reason, message: error.message }
  }
}

const FAILURES = [
  [HelmError, 'HelmFailed'],
  [NotReady, 'EngineNotReady'],
] as const

async function appliedBy(plan: UpgradePlan, tools: Tools): Promise<Applied> {
  // Read after helm: an older generation in Metacontroller's cache is then known to be stale.
  const generation = (await statefulSet(plan, tools))?.metadata.generation
  return {
    planHash: plan.hash,
    generation: plan.generation,
    secretFingerprints: plan.secretFingerprints,
    ...(plan.startMark !== undefined && { startMark: plan.startMark }),
    version: plan.spec.version,
    run: plan.run,
    at: tools.time.now().toISOString(),
    ...(generation !== undefined && { statefulSetGeneration: generation }),
  }
}

function statefulSet({ release, namespace }: UpgradePlan, { kubernetes }: Tools) {
  const collection = { apiVersion: 'apps/v1', plural: 'statefulsets', namespace }
  return kubernetes.get(collection, release, LiveStatefulSet)
}
