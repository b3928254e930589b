/** What the Jobs of each kind may do: their own account, and no more than their work needs. */
import t from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { backupRbac } from '../../hooks/backup/job.ts'
import { clusterRbac } from '../../hooks/cluster/job.ts'
import { migrationRbac } from '../../hooks/migration/job.ts'
import { restoreRbac } from '../../hooks/restore/job.ts'
import { jobRbac, type JobRbac } from '../../hooks/job.ts'
import { allObserved } from '../../hooks/request.ts'
import { ago, cluster } from '../builders.ts'
import { backup } from './backup/objects.ts'
import { migration } from './migration/objects.ts'
import { restore } from './restore/objects.ts'

const KINDS: [kind: string, plural: string, name: string, rbac: JobRbac, roles: object[]][] = [
  ['backup', 'vecbackups', 'b', backupRbac(backup()), []],
  ['restore', 'vecrestores', 'r', restoreRbac(restore()), []],
  ['migration', 'vecmigrations', 'm', migrationRbac(migration()), []],
  [
    ...(['cluster', 'vecclusters', 'a', clusterRbac(cluster())] as const),
    [{ kind: 'ClusterRole', name: 'vec-operator-helm' }],
  ],
]

for (const [kind, plural, name, rbac, roles] of KINDS) {
  t.test(`a Job of a ${kind} reads and patches its own resource, and nothing else`, async (t) => {
    const [account] = rbac
    t.match(account.metadata.name, new RegExp(`^${kind}-[0-9a-f]+$`))
    const labels = {
      'app.kubernetes.io/managed-by': 'vec-operator',
      'app.kubernetes.io/component': 'job',
    }
    const metadata = { name: account.metadata.name, namespace: 'ns', labels }
    const apiGroup = 'rbac.authorization.k8s.io'
    const binding = (role: object, suffix = '') => ({
      ...{ apiVersion: `${apiGroup}/v1`, kind: 'RoleBinding' },
      metadata: { ...metadata, name: metadata.name + suffix },
      roleRef: { apiGroup, ...role },
      subjects: [{ kind: 'ServiceAccount', name: metadata.name, namespace: 'ns' }],
    })
    t.strictSame(rbac, [
      { apiVersion: 'v1', kind: 'ServiceAccount', metadata, automountServiceAccountToken: false },
      {
        ...{ apiVersion: `${apiGroup}/v1`, kind: 'Role', metadata },
        rules: [
          {
            apiGroups: ['vec-operator.dev'],
            resources: [plural],
            resourceNames: [name],
            verbs: ['get', 'patch'],
          },
        ],
      },
      binding({ kind: 'Role', name: metadata.name }),
      ...roles.map((role) => binding(role, '-helm')),
    ])
  })
}

t.test('RBAC objects are never updated in place: other rules have another name', async (t) => {
  const named = (plural: string, helm: boolean, parent = cluster()) =>
    jobRbac(parent, { kind: 'cluster', plural, helm })[0].metadata.name
  const names = [
    named('vecclusters', false),
    named('vecclusters', true),
    named('vecbackups', false),
    named('vecclusters', false, cluster({ name: 'b' })),
  ]
  t.equal(new Set(names).size, names.length)
  t.equal(named('vecclusters', false), names[0])
})

t.test('RBAC is present once each object was observed and none is being deleted', async (t) => {
  const rbac = clusterRbac(cluster())
  const observed = rbac as AnyObject[]
  t.ok(allObserved(rbac, observed))
  for (const [index, { kind }] of observed.entries()) {
    t.notOk(allObserved(rbac, observed.toSpliced(index, 1)), `without its ${kind}`)
  }
  const going = observed.map((right, index) =>
    index === 1 ? { ...right, metadata: { ...right.metadata, deletionTimestamp: ago(1) } } : right,
  )
  t.notOk(allObserved(rbac, going), 'one of them is being deleted')
})
