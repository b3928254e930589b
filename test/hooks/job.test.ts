/** The pod of every Job: what an installation sets, and what the strictest Pod Security Standard asks. */
import t from 'tap'
import { shortHash } from '../../crds/names.ts'
import { newJob } from '../../hooks/job.ts'
import type { Settings } from '../../hooks/protocol.ts'
import { settings } from '../builders.ts'

interface Pod {
  automountServiceAccountToken: boolean
  imagePullSecrets?: { name: string }[]
  securityContext: object
  containers: { image: string; imagePullPolicy: string; securityContext: object }[]
  volumes: Record<string, unknown>[]
}

function podWith(more: Partial<Settings> = {}): Pod {
  const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
  const resources = { requests: {}, limits: {} }
  const wanted = { kind: 'cluster', verb: 'upgrade', plan, largeField: 'spec', resources }
  const job = newJob(
    { ...wanted, serviceAccount: 'cluster-1', credentials: { engine: 'key' } },
    { ...settings, ...more },
  )
  return (job['spec'] as { template: { spec: Pod } }).template.spec
}

t.test('the image of a Job is pulled as the chart says', async (t) => {
  t.equal(podWith().imagePullSecrets, undefined)
  const pod = podWith({ imagePullSecrets: ['registry', 'mirror'], imagePullPolicy: 'Always' })
  t.strictSame(
    pod.imagePullSecrets,
    ['registry', 'mirror'].map((name) => ({
      name: `cluster-upgrade-${shortHash('u', 'upgrade')}-1-pull-${shortHash(name)}`,
    })),
  )
  t.match(pod.containers, [{ image: settings.image, imagePullPolicy: 'Always' }])
})

t.test('the pod of a Job keeps to the Pod Security Standard restricted', async (t) => {
  const { securityContext, containers, volumes } = podWith()
  t.match(securityContext, {
    ...{ runAsNonRoot: true, runAsUser: 1000 },
    seccompProfile: { type: 'RuntimeDefault' },
  })
  for (const container of containers) {
    t.strictSame(container.securityContext, {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
  }
  const kinds = volumes.flatMap((volume) => Object.keys(volume).filter((key) => key !== 'name'))
  t.strictSame([...new Set(kinds)].sort(), ['emptyDir', 'secret'])
})
