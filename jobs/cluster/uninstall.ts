/**
 * `cluster uninstall`: removes the release of a VecCluster that is being deleted. Volumes stay: they
 * belong to the claims of the StatefulSet, not to the release.
 */
import type { UninstallPlan } from '../../crds/command.ts'
import { HelmError } from '../../crds/errors.ts'
import type { Outcome, Tools } from '../tools.ts'
import { waitForOthers } from './release.ts'

export async function uninstall(plan: UninstallPlan, tools: Tools): Promise<Outcome> {
  const { helm, log, reporter, signal } = tools
  const { release, namespace } = plan
  // helm removes a release in any state, also one that an earlier helm left pending or half removed.
  await waitForOthers(release, namespace, tools)
  log.info({ release, namespace }, 'helm uninstall --wait')
  try {
    log.info({ release, output: await helm.uninstall(release, namespace, signal) }, 'helm is done')
  } catch (error) {
    if (!(error instanceof HelmError)) throw error
    log.error({ release, reason: 'HelmFailed', message: error.message }, 'attempt failed')
    await reporter.ended({ state: 'Failed', reason: 'HelmFailed', message: error.message })
    return 'Failed'
  }
  await reporter.ended({ state: 'Done' })
  return 'Done'
}
