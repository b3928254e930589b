/**
 * `cluster uninstall`: removes the release of a VecCluster that is being deleted. Volumes remain:
 * they belong to the claims of the StatefulSet, not to the release.
 */
import type { UninstallPlan } from '../../crds/contract/job.ts'
import { HelmError } from '../../crds/contract/errors.ts'
import type { RunResult, Dependencies } from '../dependencies.ts'
import { waitForOtherPods } from './helm-release.ts'

export async function uninstall(plan: UninstallPlan, tools: Dependencies): Promise<RunResult> {
  const { helm, log, reporter, signal } = tools
  const { release, namespace } = plan
  // helm removes a release in any state, including one that an earlier helm left pending or half
  // removed.
  await waitForOtherPods(release, namespace, tools)
  log.info({ release, namespace }, 'running helm uninstall --wait')
  try {
    log.info(
      { release, output: await helm.uninstall(release, namespace, signal) },
      'helm completed',
    )
  } catch (error) {
    if (!(error instanceof HelmError)) throw error
    log.error({ release, reason: 'HelmFailed', message: error.message }, 'attempt failed')
    await reporter.finish({ state: 'Failed', reason: 'HelmFailed', message: error.message })
    return 'Failed'
  }
  await reporter.finish({ state: 'Done' })
  return 'Done'
}
