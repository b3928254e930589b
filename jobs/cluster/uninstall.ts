/**
 * `cluster uninstall`: removes the release of a VecCluster that is being deleted. Volumes remain:
 * they belong to the claims of the StatefulSet, not to the release.
 */
import type { UninstallPlan } from '../../crds/contract/job.ts'
import { HelmError } from '../../crds/contract/errors.ts'
import type { RunResult, Dependencies } from '../dependencies.ts'
import { waitForOtherPods } from './helm-release.ts'
import { finishReplacement, VolumesNotGrown } from './stateful-set-replacement.ts'

export async function uninstall(plan: UninstallPlan, tools: Dependencies): Promise<RunResult> {
  const { helm, log, reporter, signal } = tools
  const { release, namespace } = plan
  // helm removes a release in any state, including one that an earlier helm left pending or half
  // removed.
  await waitForOtherPods(release, namespace, tools)
  try {
    // Pods without a StatefulSet would remain.
    await finishReplacement(plan, tools)
    log.info({ release, namespace }, 'running helm uninstall --wait')
    log.info(
      { release, output: await helm.uninstall(release, namespace, signal) },
      'helm completed',
    )
  } catch (error) {
    const isReported = error instanceof HelmError || error instanceof VolumesNotGrown
    if (!isReported) throw error
    const { message } = error
    const reason = error instanceof HelmError ? 'HelmFailed' : error.code
    log.error({ release, reason, message }, 'attempt failed')
    await reporter.finish({ state: 'Failed', reason, message })
    return 'Failed'
  }
  await reporter.finish({ state: 'Done' })
  return 'Done'
}
