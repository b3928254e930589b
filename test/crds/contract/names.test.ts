import { readFileSync } from 'node:fs'
import t from 'tap'
import { MAX_CLUSTER_NAME, MAX_SCHEDULE_NAME } from '../../../crds/contract/limits.ts'
import {
  ANNOTATIONS,
  API_GROUP,
  API_VERSION,
  HELM_CLUSTER_ROLE,
  SHARDS_CLUSTER_ROLE,
  LABELS,
  jobName,
  apiKeySecretName,
  isDnsLabel,
  isDnsName,
  podHost,
  pullSecretCredential,
  releaseName,
  secretCopyName,
  serviceHost,
  shortHash,
} from '../../../crds/contract/names.ts'

t.test('the objects of a cluster are named as the specification says', async (t) => {
  t.equal(releaseName('main'), 'vec-main')
  const main = { name: 'main', namespace: 'search' }
  t.equal(apiKeySecretName('main'), 'vec-main-apikey')
  t.equal(serviceHost(main, 'cluster.local'), 'vec-main.search.svc.cluster.local')
  t.equal(podHost(main, 2, 'k8s.example'), 'vec-main-2.vec-main-headless.search.svc.k8s.example')
})

t.test('a DNS label has at most 63 characters, a DNS name at most 253', async (t) => {
  const labels = ['a', '0', 'a-1', 'a--b', 'a'.repeat(63)]
  const others = ['', '-a', 'a-', 'A', 'a_b', 'a\n', 'ä', 'a'.repeat(64)]
  for (const label of labels) t.ok(isDnsLabel(label) && isDnsName(label), label)
  for (const text of others) t.notOk(isDnsLabel(text), text)
  for (const text of others.slice(0, -1)) t.notOk(isDnsName(text), text)
  for (const name of ['a.b', 'a-1.b-2.c', `${'a.'.repeat(126)}a`]) {
    t.ok(isDnsName(name), name)
    t.notOk(isDnsLabel(name), name)
  }
  for (const text of ['a.', '.a', 'a..b', 'a.-b', `${'a.'.repeat(126)}ab`])
    t.notOk(isDnsName(text), text)
})

t.test('every annotation and label of this operator has the prefix of the API group', async (t) => {
  const { managedBy, component, ...own } = LABELS
  for (const name of [...Object.values(ANNOTATIONS), ...Object.values(own)]) {
    t.match(name, `${API_GROUP}/`)
  }
  t.strictSame(
    [managedBy, component],
    ['app.kubernetes.io/managed-by', 'app.kubernetes.io/component'],
  )
  t.equal(API_VERSION, `${API_GROUP}/v1alpha1`)
})

t.test('helm Jobs have the rights of a ClusterRole that the chart names the same', async (t) => {
  t.equal(HELM_CLUSTER_ROLE, 'vec-operator-helm')
  t.equal(SHARDS_CLUSTER_ROLE, 'vec-operator-shards')
  const file = new URL('../../../chart/templates/rbac-helm.yaml', import.meta.url)
  t.match(readFileSync(file, 'utf8'), `\n  name: ${HELM_CLUSTER_ROLE}\n`)
})

t.test('the longest names fit', async (t) => {
  const longest = 'a'.repeat(MAX_CLUSTER_NAME)
  t.ok(releaseName(longest).length <= 53, 'a Helm release has at most 53 characters')
  t.ok(releaseName(longest).length <= 52, "a StatefulSet's revision label adds eleven")
  t.ok(`${releaseName(longest)}-headless`.length <= 63, 'a Service is a DNS label')
  const backup = `${'a'.repeat(MAX_SCHEDULE_NAME)}-20250131-235959`
  t.ok(backup.length <= 63, 'the name of a backup is also a label value')
})

t.test('a Job is named after its resource, its command and its number', async (t) => {
  const name = (resource: string, kind: string, verb: string, run: number) =>
    jobName({ resource, uid: 'uid-a', kind, verb, run })
  t.equal(name('docs-before-upgrade', 'backup', 'run', 1), 'docs-before-upgrade-backup-3af3d-1')
  t.equal(name('docs', 'cluster', 'upgrade', 12), 'docs-upgrade-3af3d-12')
  t.equal(name('docs', 'cluster', 'uninstall', 13), 'docs-uninstall-3af3d-13')
  t.equal(name('docs', 'restore', 'run', 1), 'docs-restore-3af3d-1')
  const again = jobName({ resource: 'docs', uid: 'uid-b', kind: 'restore', verb: 'run', run: 1 })
  t.equal(again, 'docs-restore-fcdbd-1', 'a resource that is created again shares no name')
  t.equal(name('a.b', 'migration', 'run', 2), 'a.b-migration-3af3d-2')
})

const LONG_NAMES = [
  'a'.repeat(40),
  'a'.repeat(41),
  'a'.repeat(253),
  `${'a'.repeat(252)}b`,
  `${'a'.repeat(26)}.${'b'.repeat(26)}`,
  `${'a'.repeat(26)}-${'b'.repeat(26)}`,
  Array.from({ length: 127 }, () => 'a').join('.'),
]

t.test('a Job and its pods fit into a label, whatever their resource is named', async (t) => {
  for (const resource of LONG_NAMES) {
    const name = jobName({ resource, uid: 'uid-a', kind: 'migration', verb: 'run', run: 999_999 })
    // The Job controller appends a hyphen and five characters.
    t.ok(`${name}-x7x7x`.length <= 63, name)
    t.match(name, /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/)
    const start = resource.slice(0, 20)
    t.ok([start, start.replaceAll('.', '-')].includes(name.slice(0, 20)), 'recognisable')
    t.match(name, /-migration-3af3d-999999$/)
  }
})

t.test('no two resources share the name of a Job', async (t) => {
  const cut = jobName({ resource: 'a'.repeat(60), uid: 'u', kind: 'backup', verb: 'run', run: 1 })
  const resources = [
    ...LONG_NAMES,
    ...['a', 'a-backup', 'a-backup-1', 'a-1', 'a.b', 'a-b', 'a-upgrade-1', 'a'.repeat(60)],
    // Named as a shortened name is: it has that length too, so it is shortened itself.
    cut.slice(0, -'-backup-00000-1'.length),
  ]
  const commands = [
    ...['backup', 'restore', 'migration'].map((kind) => ({ kind, verb: 'run' })),
    ...['upgrade', 'uninstall'].map((verb) => ({ kind: 'cluster', verb })),
  ]
  const names = resources.flatMap((resource) =>
    commands.flatMap((command) =>
      [1, 2, 11].map((run) => jobName({ resource, uid: 'u', ...command, run })),
    ),
  )
  t.equal(new Set(names).size, resources.length * commands.length * 3)
})

t.test('the copy of a Secret is named after its Job, and fits into a label', async (t) => {
  t.equal(secretCopyName('docs-backup-1', 'engine'), 'docs-backup-1-engine')
  // Of a Job that an earlier release created.
  t.equal(secretCopyName('backup-run-2f20fcea3fd2-1', 'tls'), 'backup-run-2f20fcea3fd2-1-tls')
  const credential = pullSecretCredential('registry')
  const jobs = ['1', '2', '3'].map((run) => `${'a'.repeat(50)}-backup-${run}`)
  const names = jobs.map((job) => secretCopyName(job, credential))
  t.equal(new Set(names).size, 3)
  for (const name of names) {
    t.equal(name.length, 63)
    t.ok(name.endsWith(`-${credential}`))
  }
})

t.test('a hash distinguishes where one part ends and the next begins', async (t) => {
  t.not(shortHash('a', 'bc'), shortHash('ab', 'c'))
  t.equal(shortHash('a', 'bc'), shortHash('a', 'bc'))
})
