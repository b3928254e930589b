/** Which key signs tokens: nodes refuse those of a key that no helm run has published. */
import t from 'tap'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import { readSigningKey } from '../../../hooks/access-key/observe.ts'
import { sync } from '../../../hooks/access-key/sync.ts'
import { cluster, context, secret } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { accessKey, observed, reportedCluster, storedSecret } from './keys.ts'

const [OURS, NEXT, FOREIGN] = ['key-of-a-helm-run', 'next-key', 'key-of-a-stranger'] as const
const [ours, next] = [OURS, NEXT].map(keyFingerprint) as [string, string]
const SOURCE = {
  ...{ autoGenerate: false, jwtRbac: true },
  secretRef: { name: 'key', key: 'api' },
}
const REPORTED = { publishedKey: ours }

interface Found {
  /** The key in the Secret of the pods, as it is cached, and as it is read live; default: as cached. */
  cached: string | undefined
  live?: string | undefined
  /** The key in the Secret of the spec. */
  desired?: string
}

async function keyOf(of: ReturnType<typeof reportedCluster>, found: Found) {
  const { cached, live = cached, desired } = found
  const asked: string[] = []
  const published = (key: string | undefined) =>
    key === undefined ? undefined : secret({ 'api-key': key })
  const result = await readSigningKey(of, {
    async secret(namespace, name) {
      asked.push(`${namespace}/${name}`)
      if (name === 'vec-a-apikey') return published(cached)
      return desired === undefined ? undefined : secret({ api: desired })
    },
    async liveSecret(namespace, name) {
      asked.push(`${namespace}/${name} live`)
      return 'live' in found && found.live === undefined ? undefined : published(live)
    },
  })
  return { result, asked }
}

const ROTATING = { publishedKey: ours, keys: { published: ours, accepted: [ours, next] } }
const ROTATED = {
  publishedKey: next,
  keys: { published: next, accepted: [next], former: ours },
}

const SIGNING: [
  title: string,
  of: ReturnType<typeof reportedCluster>,
  found: Found,
  key: string,
  reads: number,
][] = [
  ['the reported key', reportedCluster(REPORTED), { cached: OURS }, OURS, 1],
  [
    'the reported key, although a Secret of another key is cached',
    reportedCluster(REPORTED),
    { cached: FOREIGN, live: OURS },
    OURS,
    2,
  ],
  ['the key of a release without a report of keys', reportedCluster({}), { cached: OURS }, OURS, 1],
  [
    'a key that all nodes accept, which a killed run has published',
    reportedCluster(ROTATING, SOURCE),
    { cached: NEXT },
    NEXT,
    1,
  ],
  [
    'the former key, while it is cached',
    reportedCluster(ROTATED, SOURCE),
    { cached: OURS, live: NEXT },
    OURS,
    1,
  ],
  [
    'the key of the spec, which a killed run has published',
    reportedCluster(REPORTED, SOURCE),
    { cached: NEXT, desired: NEXT },
    NEXT,
    3,
  ],
]
for (const [title, of, found, key, reads] of SIGNING) {
  t.test(`${title} signs`, async (t) => {
    const { result, asked } = await keyOf(of, found)
    t.strictSame(result, { signingKey: key })
    t.equal(asked.length, reads)
  })
}

t.test('a key of another writer does not sign, whether the spec names one or not', async (t) => {
  const foreign = { unusableKey: 'foreign' }
  const written = { cached: FOREIGN, desired: OURS }
  t.strictSame((await keyOf(reportedCluster(REPORTED), written)).result, foreign)
  t.strictSame((await keyOf(reportedCluster(REPORTED, SOURCE), written)).result, foreign)
  t.strictSame((await keyOf(reportedCluster(ROTATING, SOURCE), written)).result, foreign)
  const read = await keyOf(reportedCluster(REPORTED, SOURCE), written)
  t.strictSame(read.asked, ['ns/vec-a-apikey', 'ns/vec-a-apikey live', 'ns/key'])
  const cached = await keyOf(reportedCluster(REPORTED, SOURCE), { cached: FOREIGN })
  t.strictSame(cached.result, foreign, 'the Secret of the spec is gone')
})

t.test('a helm run that has not reported yet may have written the key', async (t) => {
  const unreported = { unusableKey: 'unreported' }
  const running = reportedCluster(REPORTED, undefined, 'Started')
  t.strictSame((await keyOf(running, { cached: NEXT })).result, unreported)
  const first = reportedCluster(undefined, undefined, 'Started')
  t.strictSame((await keyOf(first, { cached: OURS })).result, unreported)
  const { metadata, ...rest } = reportedCluster(REPORTED)
  const copied = { ...rest, metadata: { ...metadata, uid: 'another' } }
  t.strictSame((await keyOf(copied, { cached: OURS })).result, unreported)
})

t.test('no token is signed before a helm run has applied spec.apiKey.jwtRbac', async (t) => {
  const keyAfter = async (jwtRbac?: boolean) => {
    const release = { ...REPORTED, ...(jwtRbac !== undefined && { jwtRbac }) }
    return (await keyOf(reportedCluster(release), { cached: OURS })).result
  }
  t.strictSame(await keyAfter(false), { unusableKey: 'unaccepted' })
  t.strictSame(await keyAfter(true), { signingKey: OURS })
  t.strictSame(await keyAfter(), { signingKey: OURS }, 'the run was by an earlier release')
})

t.test('without an API key in the Secret no signing key is returned', async (t) => {
  t.strictSame((await keyOf(cluster(), { cached: OURS })).result, {})
  t.strictSame((await keyOf(reportedCluster(REPORTED), { cached: undefined })).result, {})
  const gone = await keyOf(reportedCluster(REPORTED), { cached: FOREIGN, live: undefined })
  t.strictSame(gone.result, {})
})

const UNUSABLE = [
  {
    unusableKey: 'foreign',
    reason: 'ForeignApiKey',
    message:
      'no helm run has published the key in Secret ns/vec-a-apikey: no token is signed with it',
    events: [{ type: 'Warning', reason: 'ForeignApiKey' }],
  },
  {
    unusableKey: 'unaccepted',
    reason: 'JwtRbacNotApplied',
    message: 'no helm run of cluster ns/a has applied apiKey.jwtRbac yet',
    events: undefined,
  },
  {
    unusableKey: 'unreported',
    reason: 'ApiKeyNotReported',
    message: 'no helm run of cluster ns/a has reported its API key yet',
    events: undefined,
  },
] as const
for (const { unusableKey, reason, message, events } of UNUSABLE) {
  t.test(`${reason}: the existing token stays, and the status is Pending`, async (t) => {
    const held = storedSecret(await sync(observed({ signingKey: OURS }), context))
    const { signingKey: _, ...seen } = observed({ children: [held] })
    const desired = await sync({ ...seen, unusableKey }, context)
    t.strictSame(storedSecret(desired), held)
    matchWhole(t, desired.status, {
      ...{ phase: 'Pending', keyFingerprint: ours },
      conditions: [{ type: 'Ready', status: 'False', reason, message }],
    })
    t.equal(desired.resyncAfterSeconds, 30)
    if (events === undefined) t.equal(desired.events, undefined)
    else t.match(desired.events, events)
    const none = await sync({ ...seen, accessKey: accessKey(), children: [], unusableKey }, context)
    t.strictSame(none.children, [])
  })
}
