/** Renewed certificates: when the nodes are restarted for one, and who restarts them. */
import t from 'tap'
import { UpgradePlan, type AppliedCertificate } from '../../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { applied, cluster, observed, progress, secret, settings } from '../../builders.ts'
import { Value } from '@sinclair/typebox/value'

type Data = Record<string, string>

function pem(name: string, lineEnd = '\n'): string {
  return ['-----BEGIN CERTIFICATE-----', name, '-----END CERTIFICATE-----', ''].join(lineEnd)
}

const FIRST = { 'tls.crt': pem('leaf1'), 'tls.key': 'k1', 'ca.crt': pem('rootA') }
const RENEWED = { 'tls.crt': pem('leaf2'), 'tls.key': 'k2', 'ca.crt': pem('rootA') }

interface Situation {
  /** Recorded by the last helm run; absent: there was none. */
  former?: UpgradePlan | undefined
  /** The last helm run was one of a release without this record. */
  isRecorded?: boolean
  restartOnRenewal?: boolean
  /** Nodes of the cluster when it was formed. */
  formedNodes?: number
  /** Value of the annotation with which a user restarts the nodes. */
  restart?: string
}

/** The helm run that is planned with this Secret. */
function runWith(data: Data, situation: Situation = {}): UpgradePlan {
  const { former, isRecorded = true, restartOnRenewal, formedNodes = 3, restart } = situation
  const known = cluster({
    spec: {
      replicas: 3,
      cluster: { enabled: true, p2p: { port: 6335, enableTls: true } },
      tls: {
        ...{ enabled: true, secretRef: { name: 'cert' } },
        ...(restartOnRenewal !== undefined && { restartOnRenewal }),
      },
    },
    status: { formedNodes },
  })
  const annotations = {
    ...(former !== undefined && {
      [ANNOTATIONS.lastAppliedSpec]: JSON.stringify(former.spec),
    }),
    ...(restart !== undefined && { [ANNOTATIONS.restart]: restart }),
  }
  const release = applied({
    secretFingerprints: former?.secretFingerprints ?? {},
    ...(former?.podsHash !== undefined && { podsHash: former.podsHash }),
    ...(isRecorded && former?.certificate && { certificate: former.certificate }),
  })
  return {
    ...desiredRun(
      observed({
        cluster: { ...known, metadata: { ...known.metadata, annotations } },
        secrets: new Map([['cert', secret(data, 'kubernetes.io/tls')]]),
        ...(former !== undefined && { progress: progress({ applied: release }) }),
      }),
      settings,
    ),
    run: 1,
  }
}

function markOf({ values }: UpgradePlan): string | undefined {
  const { podAnnotations = {} } = values as { podAnnotations?: Record<string, string> }
  return podAnnotations[ANNOTATIONS.certificate]
}

t.test('a new release has the fingerprint of its certificate on its pods', async (t) => {
  const first = runWith(FIRST)
  t.match(markOf(first), /^[0-9a-f]{12}$/)
  t.equal(first.certificate?.mark, markOf(first))
  t.equal(first.certificate?.authorities.length, 1)
  t.ok(Value.Check(UpgradePlan, JSON.parse(JSON.stringify(first))))
  const again = runWith(FIRST, { former: first })
  t.equal(markOf(again), markOf(first))
  t.equal(again.podsHash, runWith(FIRST, { former: again }).podsHash, 'no pod restarts')
  t.notMatch(JSON.stringify(first.certificate), /leaf|root|k1/)
})

t.test('a renewal by the same authority restarts the nodes, one by one', async (t) => {
  const first = runWith(FIRST)
  const renewed = runWith(RENEWED, { former: first })
  t.not(markOf(renewed), markOf(first))
  t.not(renewed.podsHash, first.podsHash, 'it waits for a maintenance window')
  t.equal(renewed.isGated, true)
  const later = runWith(RENEWED, { former: renewed })
  t.equal(markOf(later), markOf(renewed), 'once')
  t.equal(later.hash, runWith(RENEWED, { former: later }).hash)
  t.notOk('isGated' in runWith(RENEWED, { former: first, formedNodes: 1 }), 'of a single node')
})

t.test('another key for the same certificate is a renewal too', async (t) => {
  const first = runWith(FIRST)
  t.not(markOf(runWith({ ...FIRST, 'tls.key': 'k2' }, { former: first })), markOf(first))
})

const BOTH = pem('rootB') + pem('rootA', '\r\n')
t.test('an authority may be added, and sign the next certificate', async (t) => {
  const first = runWith(FIRST)
  const added = runWith({ ...FIRST, 'ca.crt': BOTH }, { former: first })
  t.not(markOf(added), markOf(first), 'nodes trust it after a restart')
  t.equal(added.isGated, true)
  const other = { 'tls.crt': pem('leaf3'), 'tls.key': 'k3', 'ca.crt': BOTH }
  const signed = runWith(other, { former: added })
  t.not(markOf(signed), markOf(added))
  t.equal(signed.isGated, true)
})

const UNTRUSTED: Record<string, [Data, Data]> = {
  'by another authority': [FIRST, { ...RENEWED, 'ca.crt': pem('rootB') }],
  'with an authority that is new': [FIRST, { ...RENEWED, 'ca.crt': BOTH }],
  'that removes an authority': [{ ...FIRST, 'ca.crt': BOTH }, RENEWED],
  'that removes ca.crt': [FIRST, { 'tls.crt': pem('leaf2'), 'tls.key': 'k2' }],
  'of a certificate that signs itself': [
    { 'tls.crt': pem('leaf1'), 'tls.key': 'k1' },
    { 'tls.crt': pem('leaf2'), 'tls.key': 'k2' },
  ],
  'with more authorities than are recorded': [
    { ...FIRST, 'ca.crt': manyAuthorities(33) },
    { ...RENEWED, 'ca.crt': manyAuthorities(34) },
  ],
}
for (const [what, [before, after]] of Object.entries(UNTRUSTED)) {
  t.test(`a renewal ${what} restarts no node: nodes would not accept each other`, async (t) => {
    const first = runWith(before)
    const renewed = runWith(after, { former: first })
    t.equal(markOf(renewed), markOf(first))
    t.strictSame(renewed.certificate, first.certificate, 'the nodes still have the former one')
    const later = runWith(after, { former: renewed })
    t.equal(markOf(later), markOf(first), 'neither later')
    t.equal(later.isGated, true, 'other changes are made one by one again')
    const next = { ...after, 'tls.key': 'k9' }
    t.equal(markOf(runWith(next, { former: later })), markOf(first), 'nor for the next renewal')
    const restart = 'once'
    const restarted = runWith(after, { former: later, restart })
    t.equal(markOf(restarted), markOf(first), 'the annotation of the user restarts them')
    t.not(restarted.podsHash, later.podsHash)
    const afterwards = runWith(next, { former: restarted, restart })
    t.not(markOf(afterwards), markOf(first), 'the renewal after that restarts them')
    t.equal(afterwards.isGated, true)
  })
}

t.test(
  'Jobs update the nodes if the Secret verifies the certificates that they have',
  async (t) => {
    for (const [what, [before, after]] of Object.entries(UNTRUSTED)) {
      const { isGated } = runWith(after, { former: runWith(before) })
      t.equal(isGated, what === 'with an authority that is new' ? true : undefined, what)
    }
  },
)

t.test(
  'the certificates after that of the nodes are their authorities without ca.crt',
  async (t) => {
    const chain = (leaf: string) => ({ 'tls.crt': pem(leaf) + pem('issuer'), 'tls.key': leaf })
    const first = runWith(chain('leaf1'))
    const renewed = runWith(chain('leaf2'), { former: first })
    t.not(markOf(renewed), markOf(first))
    t.equal(renewed.isGated, true)
  },
)

t.test('nodes of an earlier release are not restarted before the next renewal', async (t) => {
  const first = runWith(FIRST)
  const unmarked = runWith(FIRST, { former: first, isRecorded: false })
  t.equal(markOf(unmarked), undefined)
  const { mark, ...recorded } = unmarked.certificate as AppliedCertificate
  t.equal(mark, undefined)
  t.equal(recorded.fingerprint, first.certificate?.fingerprint, 'it is recorded')
  t.equal(markOf(runWith(FIRST, { former: unmarked })), undefined)
  const renewed = runWith(RENEWED, { former: unmarked })
  t.match(markOf(renewed), /^[0-9a-f]{12}$/)
  t.equal(markOf(renewed), renewed.certificate?.mark)
})

t.test('without restartOnRenewal the nodes keep their annotation', async (t) => {
  const first = runWith(FIRST)
  const renewed = runWith(RENEWED, { former: first, restartOnRenewal: false })
  t.equal(markOf(renewed), markOf(first))
  const enabled = runWith(RENEWED, { former: renewed, restartOnRenewal: true })
  t.not(markOf(enabled), markOf(first), 'they still have the former certificate')
})

t.test('a cluster without TLS has no annotation', async (t) => {
  const plan = desiredRun(observed(), settings)
  t.notOk('certificate' in plan)
  t.equal(markOf({ ...plan, run: 1 }), undefined)
})

function manyAuthorities(count: number): string {
  return Array.from({ length: count }, (_, index) => pem(`root${index}`)).join('')
}
