import { readFileSync } from 'node:fs'
import t from 'tap'
import { MAX_CLUSTER_NAME, MAX_SCHEDULE_NAME } from '../../../crds/contract/limits.ts'
import {
  ANNOTATIONS,
  API_GROUP,
  API_VERSION,
  HELM_CLUSTER_ROLE,
  LABELS,
  jobName,
  apiKeySecretName,
  podHost,
  releaseName,
  serviceHost,
  shortHash,
} from '../../../crds/contract/names.ts'

t.test('the objects of a cluster are named as the specification says', async (t) => {
  t.equal(releaseName('main'), 'vec-main')
  t.equal(apiKeySecretName('main'), 'vec-main-apikey')
  t.equal(serviceHost('main', 'search'), 'vec-main.search.svc.cluster.local')
  t.equal(podHost('main', 'search', 2), 'vec-main-2.vec-main-headless.search.svc.cluster.local')
})

t.test('every annotation and label of ours has the prefix of the API group', async (t) => {
  const { managedBy, component, ...own } = LABELS
  for (const name of [...Object.values(ANNOTATIONS), ...Object.values(own)]) {
    t.match(name, `${API_GROUP}/`)
  }
  t.match([managedBy, component], /^app\.kubernetes\.io\//)
  t.equal(API_VERSION, `${API_GROUP}/v1alpha1`)
})

t.test('helm Jobs have the rights of a ClusterRole that the chart names the same', async (t) => {
  t.equal(HELM_CLUSTER_ROLE, 'vec-operator-helm')
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

t.test('the name of a Job is derived from its parent, verb and number', async (t) => {
  const name = jobName('cluster', 'upgrade', 'uid-1', 3)
  t.match(name, /^cluster-upgrade-[0-9a-f]{12}-3$/)
  t.equal(jobName('cluster', 'upgrade', 'uid-1', 3), name)
  t.not(jobName('cluster', 'upgrade', 'uid-2', 3), name)
  t.not(jobName('cluster', 'uninstall', 'uid-1', 3), name)
})

t.test('a hash tells where one part ends and the next begins', async (t) => {
  t.not(shortHash('a', 'bc'), shortHash('ab', 'c'))
})
