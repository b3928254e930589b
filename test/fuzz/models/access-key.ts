/**
 * VecAccessKey: who gets a token, and which. Sources: "Authentication" and "States and transitions" of
 * the specification, docs/kinds/access-key.md. The token is verified without the code that signs it.
 */
import { createHmac } from 'node:crypto'
import fc from 'fast-check'
import { keyFingerprint } from '../../../crds/contract/api-keys.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { isDeepStrictEqual } from 'node:util'
import { applied, progress } from '../../builders.ts'
import { recordAt } from '../../world/api/json.ts'
import type { ApiObject } from '../../world/client.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'
import { Run, type Model, type Expectation } from './model.ts'
import { HOME, namespaceOf, putCluster, putSecret, VALUE, type Access } from './surroundings.ts'

export interface AccessKeyCase {
  cluster: 'absent' | 'Running'
  access: Access
  key: 'none' | 'auto' | 'jwt'
  /** Secret with the signing key: a helm run has reported that key, another one, or nothing yet. */
  signing: 'absent' | 'good' | 'foreign' | 'unreported'
  /** Whether a Secret of that name is there that was not made for the resource. */
  isTaken: boolean
  claims: {
    access?: 'r' | 'm'
    collections?: { name: string; access: 'r' | 'rw' | 'prw' }[]
    subject?: string
    ttl?: '1h' | '30m'
  }
}

const names = fc.stringMatching(/^[a-z]{1,8}$/)
const grant = fc.oneof(
  fc.record({ access: fc.constantFrom('r', 'm') }, { noNullPrototype: true }),
  fc.record(
    {
      collections: fc.uniqueArray(
        fc.record(
          { name: names, access: fc.constantFrom('r', 'rw', 'prw') },
          { noNullPrototype: true },
        ),
        { selector: ({ name }) => name, minLength: 1, maxLength: 3 },
      ),
    },
    { noNullPrototype: true },
  ),
)
const rest = fc.record(
  { subject: names, ttl: fc.constantFrom('1h', '30m') },
  { requiredKeys: [], noNullPrototype: true },
)

const cases = fc.record(
  {
    cluster: fc.constantFrom('Running', 'Running', 'Running', 'absent'),
    access: fc.constantFrom('own', 'own', 'allowed', 'denied'),
    key: fc.constantFrom('jwt', 'jwt', 'jwt', 'auto', 'none'),
    signing: fc.constantFrom('good', 'good', 'good', 'absent', 'foreign', 'unreported'),
    isTaken: fc.oneof({ arbitrary: fc.constant(false), weight: 4 }, fc.constant(true)),
    claims: fc.tuple(grant, rest).map(([one, other]) => ({ ...one, ...other })),
  },
  { noNullPrototype: true },
) as fc.Arbitrary<AccessKeyCase>

export const accessKeyModel: Model<AccessKeyCase> = { kind: 'VecAccessKey', cases, run: runCase }

/** More than one where several things are wrong: which is named first is not specified. */
export function expected(one: AccessKeyCase): Expectation[] {
  const found: Expectation[] = []
  const add = (phase: string, reason: string) =>
    found.push({ phase, condition: `Ready=False ${reason}`, jobs: 0 })
  const isThere = one.cluster === 'Running'
  if (!isThere) add('Pending', 'ClusterNotFound')
  if (isThere && one.access === 'denied') add('Failed', 'RefNotPermitted')
  if (isThere && one.key === 'none') add('Pending', 'ApiKeyMissing')
  if (isThere && one.key !== 'jwt') add('Pending', 'JwtRbacDisabled')
  if (isThere && one.key !== 'none' && one.signing === 'absent') add('Pending', 'SecretNotFound')
  if (isThere && one.key !== 'none' && one.signing === 'foreign') add('Pending', 'ForeignApiKey')
  if (isThere && one.key !== 'none' && one.signing === 'unreported') {
    add('Pending', 'ApiKeyNotReported')
  }
  if (one.isTaken) add('Failed', 'SecretNotOurs')
  if (found.length > 0) return found
  return [{ phase: 'Ready', condition: 'Ready=True TokenIssued', jobs: 0 }]
}

async function runCase(stage: Stage, one: AccessKeyCase): Promise<string> {
  stage.clear()
  surround(stage, one)
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'one', namespace: HOME } }
  const theirs = one.isTaken ? stage.put({ ...secret, data: { a: 'YQ==' } }) : undefined
  const parent = stage.put({
    apiVersion: API_VERSION,
    kind: 'VecAccessKey',
    metadata: { name: 'one', namespace: HOME },
    spec: {
      clusterRef: { name: 'main', namespace: namespaceOf(one.access) },
      ...one.claims,
    },
  })
  const run = new Run(stage, parent)
  const { phase, condition } = await run.expect(expected(one), 'at first')
  const word = `VecAccessKey ${phase} ${condition.split(' ').at(-1)}`
  if (theirs !== undefined) {
    if (!isDeepStrictEqual(stage.find(secret), theirs))
      throw new Broken('wrote the Secret of another')
    return word
  }
  if (phase !== 'Ready') {
    if (stage.find(secret) !== undefined)
      throw new Broken('wrote a token although something is missing')
    const good: AccessKeyCase = { ...one, cluster: 'Running', key: 'jwt', signing: 'good' }
    const healed = { ...good, access: one.access === 'denied' ? ('allowed' as const) : one.access }
    surround(stage, healed)
    await run.expect(expected(healed), 'once nothing is missing')
  }
  checkToken(stage, parent, stage.find(secret), one)
  // A token that was issued stays while the cluster is away.
  const before = stage.find(secret)
  surround(stage, { ...one, cluster: 'absent' })
  await run.pass()
  if (!isDeepStrictEqual(recordAt(stage.find(secret), 'data'), recordAt(before, 'data'))) {
    throw new Broken('the token is lost with its cluster')
  }
  return word
}

function surround(stage: Stage, { cluster, access, key, signing }: AccessKeyCase): void {
  const apiKey = { autoGenerate: true, jwtRbac: key === 'jwt' }
  const spec = key === 'none' ? {} : { apiKey }
  putCluster(stage, { state: cluster, access }, spec)
  const namespace = namespaceOf(access)
  const state = signing === 'absent' ? 'absent' : 'good'
  putSecret(stage, { namespace, name: 'vec-main-apikey', state }, ['api-key'])
  if (cluster === 'absent' || signing === 'unreported') return
  const { uid = '' } = stage.find(clusterIn(namespace))?.metadata ?? {}
  const published = keyFingerprint(signing === 'foreign' ? 'another key' : VALUE)
  const report = progress({ uid, applied: applied({ publishedKey: published }) })
  stage.change(clusterIn(namespace), ({ metadata, ...rest }) => {
    const annotations = { ...metadata.annotations, [ANNOTATIONS.progress]: JSON.stringify(report) }
    return { ...rest, metadata: { ...metadata, annotations } }
  })
}

function clusterIn(namespace: string): ApiObject {
  return { apiVersion: API_VERSION, kind: 'VecCluster', metadata: { namespace, name: 'main' } }
}

function checkToken(
  stage: Stage,
  parent: ApiObject,
  secret: ApiObject | undefined,
  { claims, access }: AccessKeyCase,
): void {
  const data = recordAt(secret, 'data')
  const text = (field: string) => Buffer.from(String(data[field]), 'base64').toString()
  const [header = '', payload = '', signature] = text('token').split('.')
  const own = createHmac('sha256', VALUE).update(`${header}.${payload}`).digest('base64url')
  if (signature !== own) throw new Broken('the token is not signed with the key of the cluster')
  const parsed = (part: string) => JSON.parse(Buffer.from(part, 'base64url').toString()) as unknown
  const { exp, ...rest } = parsed(payload) as { exp?: number }
  const expectedClaims = {
    // The engine's audit log reads `subject` (docs/differences.md).
    ...(claims.subject !== undefined && { sub: claims.subject, subject: claims.subject }),
    access:
      claims.access ??
      claims.collections?.map(({ name, access: level }) => ({ collection: name, access: level })),
  }
  const found = { ...rest }
  Reflect.deleteProperty(found, 'iat')
  if (!isDeepStrictEqual(found, expectedClaims))
    throw new Broken(`the token says ${JSON.stringify(found)}`)
  if ((parsed(header) as { alg?: string }).alg !== 'HS256') throw new Broken('not HS256')
  const now = stage.clock.now().getTime() / 1000
  const ttl = { '1h': 3600, '30m': 1800, none: undefined }[claims.ttl ?? 'none']
  if ((exp === undefined) !== (ttl === undefined)) throw new Broken(`exp is ${exp}`)
  // Renewed a third of its life before its end.
  if (exp !== undefined && ttl !== undefined && (exp - now > ttl || exp - now < ttl / 3 - 60)) {
    throw new Broken(`the token has ${exp - now} of ${ttl} s left`)
  }
  const url = `http://vec-main.${namespaceOf(access)}.svc.cluster.local:6333`
  if (text('url') !== url) throw new Broken(`the url is ${text('url')}`)
  const owner = secret?.metadata.ownerReferences?.find(({ controller }) => controller === true)
  if (owner?.uid !== parent.metadata.uid) throw new Broken('the Secret has another owner')
}
