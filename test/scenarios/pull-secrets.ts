/** What the Jobs of a resource pull the operator's image with, in whatever namespace it is. */
import { secretCopyName, jobName, pullSecretCredential } from '../../crds/contract/names.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { matchWhole } from '../match-whole.ts'
import { PULL_SECRET, pullSecret } from '../world/pull-secret.ts'
import {
  SMALL,
  clusterManifest,
  clusterReference,
  untilApplied,
  untilGone,
  type Scenario,
} from './scenario.ts'

const lent: Scenario = {
  title: 'a Job pulls with copies of the image pull Secrets, which go when it has ended',
  async run(world, t) {
    const namespace = await world.namespace('pulled')
    const spec = { version: world.versions.newer, ...SMALL }
    const { metadata } = await world.apply(clusterManifest(namespace, 'a', spec))
    const { uid = '' } = metadata
    const job = jobName({ resource: 'a', uid, kind: 'cluster', verb: 'upgrade', run: 1 })
    const name = secretCopyName(job, pullSecretCredential(PULL_SECRET))
    const copy = { apiVersion: 'v1', kind: 'Secret', namespace, name }
    const found = (await world.waitFor(
      copy,
      'copied',
      (object) => object !== undefined,
      300,
    )) as AnyObject & { type?: string; data?: object }
    const { type, data } = pullSecret('')
    matchWhole(t, found, {
      type,
      data,
      metadata: { ownerReferences: [{ kind: 'Job', name: job }] },
    })
    const made = (await world.get({
      apiVersion: 'batch/v1',
      kind: 'Job',
      namespace,
      name: job,
    })) as (AnyObject & { spec: { template: { spec: object } } }) | undefined
    matchWhole(t, made?.spec.template.spec, { imagePullSecrets: [{ name }] })
    await untilApplied(world, clusterReference(namespace, 'a'), 900)
    await untilGone(world, copy, 60)
    t.equal(await world.get(copy), undefined)
  },
}

export const pullSecrets: Scenario[] = [lent]
