/**
 * `cluster upgrade`: installs the engine's chart for a VecCluster or upgrades the existing release.
 * Its report states what was applied, so that the hook knows when the next run is due.
 */
import type { PlannedKeys, ReleaseKeys } from '../../crds/contract/api-keys.ts'
import type { AppliedRelease, UpgradePlan } from '../../crds/contract/job.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import { HelmError, NotReady } from '../../crds/contract/errors.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { chartVersion } from '../../crds/versions.ts'
import { statefulSets } from '../clients/kubernetes/api-resources.ts'
import { MAX_ANNOTATION_BYTES, type Report } from '../reporter.ts'
import type { RunResult, Dependencies } from '../dependencies.ts'
import { LiveStatefulSet, checkSafety } from './safety-checks.ts'
import {
  clearPendingRelease,
  isForeignRelease,
  isOfRelease,
  waitForOtherPods,
} from './helm-release.ts'
import {
  checkKeySources,
  KeysChanged,
  publishedKey,
  repeatedChecksum,
  removeKeys,
  restoreGeneratedKeys,
  storeKeys,
  unchangedChecksum,
} from './keys.ts'
import { gatePartition, isUpdating, releaseUpdatedNodes } from './partition.ts'
import { finishReplacement, VolumesNotGrown } from './stateful-set-replacement.ts'
import { changeVolumes } from './volumes.ts'

export async function upgrade(plan: UpgradePlan, tools: Dependencies): Promise<RunResult> {
  const { release, namespace } = plan
  await waitForOtherPods(release, namespace, tools)
  await clearPendingRelease(release, namespace, tools)

  const report = await runHelm(plan, tools)
  const annotations = { [ANNOTATIONS.lastAppliedSpec]: formatSpec(plan.spec) }
  await tools.reporter.finish(report, report.state === 'Done' ? annotations : {})
  return report.state
}

/** Without a large config: later runs are compared with the other fields, such as `tls` and `replicas`. */
function formatSpec(spec: UpgradePlan['spec']): string {
  const text = JSON.stringify(spec)
  if (Buffer.byteLength(text) <= MAX_ANNOTATION_BYTES) return text
  return JSON.stringify({ ...spec, config: undefined })
}

type UpgradeReport = Report & { state: RunResult }

/** A failure that users can fix ends the attempt and is reported; any other error is a crash. */
async function runHelm(plan: UpgradePlan, tools: Dependencies): Promise<UpgradeReport> {
  const { helm, log, reporter, signal } = tools
  const { release, version, namespace } = plan
  try {
    await finishReplacement(plan, tools)
    const live = await readStatefulSet(plan, tools)
    if (await isForeignRelease(plan, live, tools)) {
      throw new HelmError(
        `release ${release} was not installed for this VecCluster: uninstall it, or use another name for the VecCluster`,
      )
    }
    const violation =
      live &&
      ((await checkSafety(plan, live, tools)) ??
        // helm refuses a StatefulSet of another owner, and that owner decides about its volumes.
        (isOfRelease(live, plan) ? await changeVolumes(plan, live, tools) : undefined))
    if (violation !== undefined) {
      log.warn(violation, 'rejected before helm')
      return { state: 'Refused', ...violation }
    }
    await checkKeySources(plan, tools)
    await restoreGeneratedKeys(plan, tools)
    log.info({ release, version, namespace, chart: plan.chart }, 'running helm upgrade --install')
    if (plan.keys !== undefined) await storeKeys(plan, plan.keys, live, tools)
    const secretChecksum =
      live && (unchangedChecksum(plan.keys, live) ?? (await repeatedChecksum(plan, live, tools)))
    const isInProgress = live !== undefined && (await isUpdating(plan, live, tools))
    const partition = live && gatePartition(plan, live, isInProgress)
    const { repository, digest } = plan.spec.image
    const image = digest === undefined ? undefined : `${repository}@${digest}`
    const gracePeriod = plan.spec.terminationGracePeriodSeconds
    const isAdjusted =
      partition !== undefined ||
      secretChecksum !== undefined ||
      image !== undefined ||
      gracePeriod !== undefined ||
      plan.monitorTls !== undefined ||
      plan.spec.service.type !== 'ClusterIP'
    const adjustments = { partition, secretChecksum, image, gracePeriod, isAdjusted }
    await reporter.verifyOwnership()
    const output = await helm.upgrade({ ...plan, ...adjustments }, signal)
    log.info({ release, output }, 'helm completed')
    if (partition !== undefined && isInProgress) await releaseUpdatedNodes(plan, tools)
    if (plan.keys === undefined) await removeKeys(plan, tools)
    return { state: 'Done', applied: await readApplied(plan, tools) }
  } catch (error) {
    const reason = FAILURE_REASONS.find(([kind]) => error instanceof kind)?.[1]
    if (reason === undefined || !(error instanceof Error)) throw error
    log.error({ release, reason, message: error.message }, 'attempt failed')
    return { state: 'Failed', reason, message: error.message }
  }
}

const FAILURE_REASONS = [
  [HelmError, 'HelmFailed'],
  [NotReady, 'EngineNotReady'],
  [VolumesNotGrown, 'VolumesNotGrown'],
  [KeysChanged, 'KeysChanged'],
] as const

async function readApplied(plan: UpgradePlan, tools: Dependencies): Promise<AppliedRelease> {
  // Read after helm: an older generation in Metacontroller's cache is then known to be stale.
  const generation = (await readStatefulSet(plan, tools))?.metadata.generation
  const key = requiresApiKey(plan.spec) ? await publishedKey(plan, tools) : undefined
  const grown = plan.volumes?.find(({ isAutoGrown }) => isAutoGrown)
  return {
    planHash: plan.hash,
    generation: plan.generation,
    secretFingerprints: plan.secretFingerprints,
    ...(plan.startMark !== undefined && { startMark: plan.startMark }),
    // A step on the way to spec.version has a version of its own.
    version: chartVersion(plan.spec.version) === plan.version ? plan.spec.version : plan.version,
    ...(plan.defaultAffinity !== undefined && { defaultAffinity: plan.defaultAffinity }),
    ...(plan.podsHash !== undefined && { podsHash: plan.podsHash }),
    ...(key !== undefined && { publishedKey: key }),
    jwtRbac: plan.spec.apiKey?.jwtRbac === true,
    ...(plan.keys !== undefined && { keys: releaseKeys(plan.keys) }),
    ...(plan.certificate !== undefined && { certificate: plan.certificate }),
    ...(grown !== undefined && { grownSize: grown.size }),
    run: plan.run,
    at: tools.time.now().toISOString(),
    ...(generation !== undefined && { statefulSetGeneration: generation }),
    ...(plan.recreatesObjects === true && { recreatedObjects: true }),
  }
}

function releaseKeys({ published, accepted, former, restartedAfter }: PlannedKeys): ReleaseKeys {
  return {
    ...{ published, accepted },
    ...(former !== undefined && { former }),
    ...(restartedAfter !== undefined && { restartedAfter }),
  }
}

function readStatefulSet({ release, namespace }: UpgradePlan, { kubernetes }: Dependencies) {
  return kubernetes.get(statefulSets(namespace), release, LiveStatefulSet)
}
