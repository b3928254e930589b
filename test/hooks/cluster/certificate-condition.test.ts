/** What a VecCluster says about a renewed certificate that its nodes are not restarted for. */
import t from 'tap'
import type { ClusterStatus } from '../../../crds/cluster.ts'
import type { AppliedCertificate } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { criticalConditions } from '../../../crds/critical-conditions.ts'
import { currentCertificate } from '../../../hooks/cluster/certificate.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { newAuthority, newCertificate } from '../../../metacontroller/identity/certificates.ts'
import {
  applied,
  cluster,
  context,
  NOW,
  progress,
  secret,
  settings,
  statefulSet,
} from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { condition, ready, sync } from './decisions.ts'

type Data = Record<string, string>

function certificateOf(text: string, authority: string): Data {
  const pem = (name: string) => `-----BEGIN CERTIFICATE-----\n${name}\n-----END CERTIFICATE-----\n`
  return { 'tls.crt': pem(text), 'tls.key': text, 'ca.crt': pem(authority) }
}

const FORMER = certificateOf('leaf1', 'rootA')
const RENEWED = certificateOf('leaf2', 'rootA')
const OF_ANOTHER = certificateOf('leaf2', 'rootB')

interface Situation {
  data?: Data
  /** Additional fields of what the last helm run recorded. */
  recorded?: Partial<AppliedCertificate>
  status?: ClusterStatus
  restartOnRenewal?: boolean
  enableTls?: boolean
  hibernate?: boolean
  annotations?: Record<string, string>
  set?: ReturnType<typeof statefulSet>
  isSecretMissing?: boolean
}

/** The sync after a helm run that has applied everything, with this Secret. */
function syncWith(situation: Situation) {
  const { data = RENEWED, recorded = {}, status, restartOnRenewal = false } = situation
  const { enableTls = true, hibernate, annotations = {}, set = statefulSet(3) } = situation
  const resource = cluster({
    spec: {
      replicas: 3,
      cluster: { enabled: true, p2p: { port: 6335, enableTls } },
      tls: { enabled: true, secretRef: { name: 'cert' }, restartOnRenewal },
      ...(hibernate !== undefined && { hibernate }),
    },
    status: { phase: 'Running', appliedRun: 1, ...status },
    annotations,
  })
  const unannotated = { ...resource, metadata: { ...resource.metadata, annotations: {} } }
  const secretsOf = (content: Data) => new Map([['cert', secret(content, 'kubernetes.io/tls')]])
  const certificate = {
    ...(currentCertificate({
      cluster: unannotated,
      secrets: secretsOf(FORMER),
    }) as AppliedCertificate),
    ...recorded,
  }
  const secrets = situation.isSecretMissing === true ? new Map() : secretsOf(data)
  const observed = ready({
    cluster: resource,
    statefulSet: set,
    secrets,
    progress: progress({ applied: applied({ certificate }) }),
  })
  const planHash = desiredRun(observed, settings).hash
  return sync(
    { ...observed, progress: progress({ applied: applied({ certificate, planHash }) }) },
    context,
  )
}

const later = (status: ClusterStatus, revision: string, counts: object = {}): Situation => ({
  status,
  set: statefulSet(3, { currentRevision: revision, updateRevision: revision, ...counts }),
})

t.test('without restartOnRenewal a condition and an Event say what to do', async (t) => {
  const renewed = syncWith({ recorded: { expiresAt: '2026-04-01T00:00:00Z' } })
  t.strictSame(condition(renewed, 'CertificateInUse'), [
    'False',
    'RestartDisabled',
    'Secret cert has another certificate: nodes that were not restarted since then use the former one for gRPC and the connections between nodes until it expires at 2026-04-01T00:00:00Z; spec.tls.restartOnRenewal is false: to restart them one by one, set the annotation vec-operator.dev/restart to another value',
  ])
  const events = (renewed.events ?? []).filter(({ reason }) => reason === 'RestartDisabled')
  matchWhole(t, events, [{ type: 'Warning' }])
  matchWhole(t, criticalConditions(renewed.status.conditions ?? []), [
    { reason: 'RestartDisabled' },
  ])
  const again = syncWith({
    status: renewed.status,
    recorded: { expiresAt: '2026-04-01T00:00:00Z' },
  })
  t.strictSame(condition(again, 'CertificateInUse'), condition(renewed, 'CertificateInUse'))
  t.strictSame((again.events ?? []).length, 0, 'one Event')
  t.match(
    condition(syncWith({ enableTls: false }), 'CertificateInUse')?.[2],
    / for gRPC until it expires; /,
  )
})

t.test('so does one for a change of the authorities', async (t) => {
  const changed = syncWith({ data: OF_ANOTHER, restartOnRenewal: true })
  t.strictSame(condition(changed, 'CertificateInUse'), [
    'False',
    'AuthorityChanged',
    'Secret cert has another certificate: nodes that were not restarted since then use the former one for gRPC and the connections between nodes until it expires; its authorities have changed as well, so they are restarted only on request: set the annotation vec-operator.dev/restart to another value',
  ])
  const disabled = syncWith({ data: OF_ANOTHER, restartOnRenewal: false })
  t.equal(condition(disabled, 'CertificateInUse')?.[1], 'AuthorityChanged')
})

t.test('the condition is there only while nodes use the former certificate', async (t) => {
  t.equal(condition(syncWith({ data: FORMER }), 'CertificateInUse'), undefined)
  const restarting = syncWith({ restartOnRenewal: true })
  t.equal(condition(restarting, 'CertificateInUse'), undefined, 'they are restarted')
  const onRequest = syncWith({ annotations: { [ANNOTATIONS.restart]: 'now' } })
  t.equal(condition(onRequest, 'CertificateInUse'), undefined, 'a user restarts them')
})

t.test('another change of the pods restarts the nodes as well', async (t) => {
  const { status } = syncWith({})
  t.strictSame(status.pendingCertificate?.revision, 'r1')
  const halfway = syncWith(later(status, 'r2', { currentRevision: 'r1', updatedReplicas: 1 }))
  t.ok(condition(halfway, 'CertificateInUse'), 'not all of them yet')
  const restarted = syncWith(later(halfway.status, 'r2'))
  t.equal(condition(restarted, 'CertificateInUse'), undefined)
  const reverted = syncWith(later(restarted.status, 'r1'))
  t.equal(
    condition(reverted, 'CertificateInUse'),
    undefined,
    'the former template restarts them too',
  )
  const next = syncWith({ ...later(reverted.status, 'r1'), data: certificateOf('leaf3', 'rootA') })
  t.ok(condition(next, 'CertificateInUse'), 'after the next renewal')
})

t.test('nodes that hibernate start with the renewed certificate', async (t) => {
  const { status } = syncWith({})
  const stopped = syncWith({ status, hibernate: true, set: statefulSet(0) })
  t.equal(condition(stopped, 'CertificateInUse'), undefined)
  t.equal(condition(syncWith({ status: stopped.status }), 'CertificateInUse'), undefined)
})

t.test('a Secret or a StatefulSet that is missing for a moment changes nothing', async (t) => {
  const { status } = syncWith({})
  const restarted = syncWith(later(status, 'r2'))
  const missing = syncWith({ ...later(restarted.status, 'r2'), isSecretMissing: true })
  t.equal(condition(syncWith(later(missing.status, 'r2')), 'CertificateInUse'), undefined)
  const replaced = syncWith(later(restarted.status, 'r2', { updateRevision: undefined }))
  t.equal(condition(syncWith(later(replaced.status, 'r2')), 'CertificateInUse'), undefined)
})

t.test('the record has the time at which the certificate expires', async (t) => {
  const authority = newAuthority(NOW)
  const { cert, key } = newCertificate(authority, ['a'], NOW, { days: 30 })
  const data = { 'tls.crt': cert + authority.cert, 'tls.key': key, 'ca.crt': authority.cert }
  const secrets = new Map([['cert', secret(data, 'kubernetes.io/tls')]])
  const spec = { tls: { enabled: true, secretRef: { name: 'cert' } } }
  t.equal(
    currentCertificate({ cluster: cluster({ spec }), secrets })?.expiresAt,
    '2026-03-31T12:00:00Z',
  )
})
