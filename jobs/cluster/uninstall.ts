/**
 * `cluster uninstall`: removes the release of a VecCluster that is being deleted. Volumes belong
 * to the claims of the StatefulSet, not to the release: they remain, unless the plan says that they are
 * deleted.
 */
import type { UninstallPlan } from '../../crds/contract/job.ts'
import { HelmError } from '../../crds/contract/errors.ts'
import { claimName, LABELS } from '../../crds/contract/names.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { persistentVolumeClaims } from '../clients/kubernetes/api-resources.ts'
import type { RunResult, Dependencies } from '../dependencies.ts'
import { isForeignRelease, waitForOtherPods } from './helm-release.ts'
import { readStatefulSet } from './shards/stateful-set.ts'
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
    if (await isForeignRelease(plan, await readStatefulSet(plan, tools), tools)) {
      log.warn({ release }, 'the release was not installed for this VecCluster: it is retained')
    } else {
      await reporter.verifyOwnership()
      log.info({ release, namespace }, 'running helm uninstall --wait')
      log.info(
        { release, output: await helm.uninstall(release, namespace, signal) },
        'helm completed',
      )
      await deleteVolumes(plan, tools)
    }
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

/** After the release: while the StatefulSet exists, it creates the claims of its pods again. */
async function deleteVolumes(plan: UninstallPlan, tools: Dependencies): Promise<void> {
  const { namespace, release, deletedVolumes } = plan
  const { kubernetes, log } = tools
  if (deletedVolumes === undefined) return
  const { templates, nodes } = deletedVolumes
  // It is of no release of this cluster: helm has refused to install one, and the claims are in use.
  if ((await readStatefulSet(plan, tools)) !== undefined) {
    log.warn(
      { statefulSet: release },
      'the StatefulSet has another owner: its volumes are retained',
    )
    return
  }
  for (const template of templates) {
    for (let ordinal = 0; ordinal < nodes; ordinal += 1) {
      const name = claimName(template, release, ordinal)
      const claim = await kubernetes.get(persistentVolumeClaims(namespace), name, AnyObject)
      const { uid, labels } = claim?.metadata ?? {}
      // The volume of a removed node that spec.persistence.onScaleIn keeps.
      if (uid === undefined || labels?.[LABELS.removedPeer] !== undefined) continue
      await kubernetes.delete(persistentVolumeClaims(namespace), name, { uid })
      log.info({ claim: name }, 'deleted a volume claim')
    }
  }
}
