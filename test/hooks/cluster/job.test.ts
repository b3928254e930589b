/** The helm Jobs of a VecCluster: their command, account and Secrets. */
import t from 'tap'
import {
  clusterRbac,
  desiredRun,
  uninstallJob,
  uninstallRun,
  upgradeJob,
} from '../../../hooks/cluster/job.ts'
import type { Child } from '../../../hooks/protocol.ts'
import { cluster, observed, settings, type ClusterOverrides } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'

interface PodSpec {
  serviceAccountName: string
  containers: { args: string[]; resources: object }[]
  volumes: { name: string; secret?: { secretName: string } }[]
}

function podOf(job: Child): PodSpec {
  return (job['spec'] as { template: { spec: PodSpec } }).template.spec
}

function upgradeOf(spec: ClusterOverrides['spec'] = {}): Child {
  const parent = cluster({ spec })
  const plan = { ...desiredRun(observed({ cluster: parent }), settings), run: 1 }
  return upgradeJob(parent, plan, clusterRbac(parent), settings)
}

function uninstall(): Child {
  const rbac = clusterRbac(cluster())
  return uninstallJob({ ...uninstallRun({ cluster: cluster() }), run: 2 }, rbac, settings)
}

/** The names of the Secrets that are mounted, by credential. */
function mounted(job: Child): Record<string, string> {
  const secrets = podOf(job).volumes.filter(({ secret }) => secret !== undefined)
  return Object.fromEntries(secrets.map(({ name, secret }) => [name, secret?.secretName ?? '']))
}

for (const [verb, job] of [
  ['upgrade', upgradeOf()],
  ['uninstall', uninstall()],
] as const) {
  t.test(`helm ${verb} has its own ServiceAccount and the resources of helm Jobs`, async (t) => {
    const { serviceAccountName, containers } = podOf(job)
    t.equal(serviceAccountName, clusterRbac(cluster())[0].metadata.name)
    matchWhole(t, containers, [
      { args: ['jobs/main.js', 'cluster', verb, 'ns/a'], resources: settings.jobResources.helm },
    ])
    t.match(job.metadata, {
      name: verb === 'upgrade' ? 'a-upgrade-3af3d-1' : 'a-uninstall-3af3d-2',
      labels: { 'vec-operator.dev/release': 'vec-a', 'vec-operator.dev/parent': 'uid-a' },
    })
  })
}

t.test(
  'the upgrade asks the engine for its shards: it has the key and the authority',
  async (t) => {
    t.strictSame(mounted(upgradeOf()), { engine: 'vec-a-apikey' })
    const secretRef = { name: 'cert' }
    t.strictSame(mounted(upgradeOf({ tls: { enabled: true, secretRef } })), {
      engine: 'vec-a-apikey',
      tls: 'cert',
    })
    t.strictSame(mounted(upgradeOf({ tls: { enabled: false, secretRef } })), {
      engine: 'vec-a-apikey',
    })
  },
)

t.test('the uninstall calls no engine and gets no Secret', async (t) => {
  t.strictSame(mounted(uninstall()), {})
})
