/** Jobs with a volume from the values of the chart, and nodes with an image by its digest. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { JOB_VOLUME } from '../world/job-volume.ts'
import type { World } from '../world/world.ts'
import { backupResource, filledCluster, untilEnded } from './backup-parts.ts'
import { running, untilApplied, type Scenario } from './scenario.ts'

interface Pod extends AnyObject {
  spec: {
    volumes: { name: string; emptyDir?: object }[]
    containers: { image: string; volumeMounts: { name: string; mountPath: string }[] }[]
  }
  status: { phase: string; containerStatuses?: { imageID: string }[] }
}

const POD = { apiVersion: 'v1', kind: 'Pod' }

function hasStarted(pod: AnyObject | undefined): boolean {
  const { phase } = (pod as Pod | undefined)?.status ?? {}
  return phase === 'Running' || phase === 'Succeeded'
}

async function podsIn(world: World, namespace: string): Promise<Pod[]> {
  return (await world.list('v1', 'Pod', namespace)) as Pod[]
}

const mounted: Scenario = {
  title: 'Jobs of both kinds run with the volume that the values of the chart add to their pods',
  async run(world, t) {
    const { namespace, bucket } = await filledCluster(world, 'mounted')
    const { reference, of } = backupResource('VecBackup', { namespace, name: 'b' }, bucket)
    await world.apply(of())
    await untilEnded(world, reference)

    const { name, sizeLimit, mountPath } = JOB_VOLUME
    const pods = (await podsIn(world, namespace)).filter(
      ({ metadata }) => metadata.labels?.['job-name'] !== undefined,
    )
    for (const { metadata } of pods) {
      const reference = { ...POD, namespace, name: metadata.name }
      // The kubelet may say that a pod runs after the pod itself has reported its result.
      await world.waitFor(reference, 'started', hasStarted)
    }
    const seen = pods.map(({ metadata, spec }) => ({
      verb: /-(upgrade|backup)-/.exec(metadata.labels?.['job-name'] ?? '')?.[1],
      volume: spec.volumes.find((volume) => volume.name === name)?.emptyDir,
      mountedAt: spec.containers.map(
        ({ volumeMounts }) => volumeMounts.find((mount) => mount.name === name)?.mountPath,
      ),
    }))
    const expected = { volume: { sizeLimit }, mountedAt: [mountPath] }
    t.strictSame(
      seen.toSorted((one, other) => (one.verb ?? '').localeCompare(other.verb ?? '')),
      [
        { verb: 'backup', ...expected },
        { verb: 'upgrade', ...expected },
      ],
    )
  },
}

const byDigest: Scenario = {
  title: 'the nodes run the image whose digest spec.image.digest names',
  async run(world, t) {
    const namespace = await world.namespace('digest')
    const cluster = await running(world, namespace, 'a')
    const node = async () => (await podsIn(world, namespace)).find((pod) => isNode(pod))
    const former = await node()
    const [, repository = '', named = ''] =
      /^(.*)@(sha256:[0-9a-f]{64})$/.exec(former?.status.containerStatuses?.[0]?.imageID ?? '') ??
      []
    t.not(named, '', 'the node names the image by its digest')

    await world.patch(cluster, { spec: { image: { digest: named } } })
    await untilApplied(world, cluster)
    const pod = await node()
    t.not(pod?.metadata.uid, former?.metadata.uid)
    t.equal(pod?.status.phase, 'Running')
    t.equal(
      pod?.spec.containers[0]?.image,
      `${repository}:v${world.versions.newer}@${named}`,
      'of the same repository and version',
    )
  },
}

const isNode = ({ metadata }: Pod) => metadata.name === 'vec-a-0'

export const jobPods: Scenario[] = [mounted, byDigest]
