/** VecAccessKey: issued, renewed and kept, waiting for its cluster, and never over what others own. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { running, untilGone, untilNextRun, type Scenario } from './scenario.ts'
import {
  engineIn,
  inside,
  readyOf,
  resource,
  secretIn,
  untilPhase,
  untilReadyReason,
} from './inside.ts'

const SIGNING = { apiKey: { autoGenerate: true, jwtRbac: true } }
const VECTORS = { vectors: { size: 2, distance: 'Dot' } }
const POINTS = { points: [{ id: 1, vector: [1, 2], payload: { tenant: 'x' } }] }
const DENIED = { message: /403|Forbidden/ }

const issued: Scenario = {
  title: 'a VecAccessKey gives a token that may do what its spec says, and nothing else',
  async run(world, t) {
    const namespace = await world.namespace('issued')
    await running(world, namespace, 'a', SIGNING)
    const engine = engineIn(world, namespace)
    for (const name of ['own', 'other']) await engine.call('PUT', `/collections/${name}`, VECTORS)
    const { reference, of } = resource('VecAccessKey', namespace, 'reader')
    const collections = [{ name: 'own', access: 'r' }]
    await world.apply(of({ collections, subject: 'me', ttl: '1h', secretName: 'reader-token' }))
    const object = await untilPhase(world, reference, 'Ready')
    t.match(inside(object), {
      secretRef: { name: 'reader-token', key: 'token' },
      issuedAt: String,
      expiresAt: String,
      renewAt: String,
      keyFingerprint: /^[0-9a-f]{16}$/,
    })
    const { secret, data } = await secretIn(world, namespace, 'reader-token')
    t.equal(secret?.type, 'Opaque')
    t.equal(data['url'], `http://vec-a.${namespace}.svc.cluster.local:6333`)
    const { token = '' } = data
    t.match(await engine.call('GET', '/collections/own', undefined, token), { status: 'ok' })
    const points = '/collections/own/points?wait=true'
    await t.rejects(engine.call('PUT', points, POINTS, token), DENIED)
    await t.rejects(engine.call('GET', '/collections/other', undefined, token), DENIED)
    await t.rejects(engine.call('DELETE', '/collections/own', undefined, token), DENIED)
    t.notOk(JSON.stringify(object).includes(token), 'no token outside of its Secret')
    t.notOk((await world.serviceLog()).includes(token))
  },
}

const conditional: Scenario = {
  title: 'a token with valueExists holds as long as the point is there',
  async run(world, t) {
    const namespace = await world.namespace('conditional')
    await running(world, namespace, 'a', SIGNING)
    const engine = engineIn(world, namespace)
    await engine.call('PUT', '/collections/own', VECTORS)
    const { reference, of } = resource('VecAccessKey', namespace, 'tenant')
    const valueExists = { collection: 'own', matches: [{ key: 'tenant', value: 'x' }] }
    await world.apply(of({ access: 'r', valueExists }))
    await untilPhase(world, reference, 'Ready')
    const { data } = await secretIn(world, namespace, 'tenant')
    const ask = () => engine.call('GET', '/collections/own', undefined, data['token'])
    await t.rejects(ask())
    await engine.call('PUT', '/collections/own/points?wait=true', POINTS)
    t.match(await ask(), { status: 'ok' })
    await engine.call('POST', '/collections/own/points/delete?wait=true', { points: [1] })
    await t.rejects(ask())
  },
}

const renewed: Scenario = {
  title: 'a token is renewed when it is due, and at no other time',
  async run(world, t) {
    const namespace = await world.namespace('renewed')
    await running(world, namespace, 'a', SIGNING)
    const short = resource('VecAccessKey', namespace, 'short')
    const long = resource('VecAccessKey', namespace, 'long')
    await world.apply(short.of({ access: 'r', ttl: '3m', renewBefore: '2m' }))
    await world.apply(long.of({ access: 'r', ttl: '1h' }))
    const first = inside(await untilPhase(world, short.reference, 'Ready'))
    await untilPhase(world, long.reference, 'Ready')
    const before = await secretIn(world, namespace, 'long')
    const old = await secretIn(world, namespace, 'short')
    const object = await world.waitFor(
      short.reference,
      'renewed',
      (found) => inside(found).issuedAt !== first.issuedAt && inside(found).phase === 'Ready',
      180,
    )
    t.equal(inside(object).issuedAt, first.renewAt)
    const { data } = await secretIn(world, namespace, 'short')
    t.not(data['token'], old.data['token'])
    const engine = engineIn(world, namespace)
    t.match(await engine.call('GET', '/collections', undefined, data['token']), { status: 'ok' })
    const after = await secretIn(world, namespace, 'long')
    t.equal(after.secret?.metadata.resourceVersion, before.secret?.metadata.resourceVersion)
  },
}

const disabled: Scenario = {
  title: 'without jwtRbac a VecAccessKey is Pending and says so, until the cluster has it',
  async run(world, t) {
    const namespace = await world.namespace('disabled')
    const { reference, of } = resource('VecAccessKey', namespace, 'key')
    await world.apply(of({ access: 'm' }))
    t.equal(inside(await untilReadyReason(world, reference, 'ClusterNotFound')).phase, 'Pending')
    const cluster = await running(world, namespace, 'a')
    t.equal(inside(await untilReadyReason(world, reference, 'ApiKeyMissing')).phase, 'Pending')
    await world.patch(cluster, { spec: { apiKey: { autoGenerate: true } } })
    t.equal(inside(await untilReadyReason(world, reference, 'JwtRbacDisabled')).phase, 'Pending')
    await world.patch(cluster, { spec: { apiKey: { jwtRbac: true } } })
    await untilPhase(world, reference, 'Ready', 300)
  },
}

const foreign: Scenario = {
  title: "another owner's Secret stays untouched, and the VecAccessKey is Failed with its name",
  async run(world, t) {
    const namespace = await world.namespace('foreign')
    await running(world, namespace, 'a', SIGNING)
    const theirs = {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: 'taken' },
      data: { theirs: Buffer.from('content').toString('base64') },
    }
    await world.apply(theirs)
    const { reference, of } = resource('VecAccessKey', namespace, 'taken')
    await world.apply(of({ access: 'r' }))
    const object = await untilPhase(world, reference, 'Failed')
    t.equal(readyOf(object)?.reason, 'SecretNotOurs')
    t.match(inside(object).error, /Secret taken/)
    await world.advance(35)
    t.strictSame((await secretIn(world, namespace, 'taken')).data, { theirs: 'content' })
    await world.delete({ apiVersion: 'v1', kind: 'Secret', namespace, name: 'taken' })
    await untilPhase(world, reference, 'Ready')
  },
}

const rotated: Scenario = {
  title: 'when the signing key changes there is a new token, and the old one is refused',
  async run(world, t) {
    const namespace = await world.namespace('rotated-key')
    const key = (value: string) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { namespace, name: 'key' },
      data: { api: Buffer.from(value).toString('base64') },
    })
    await world.apply(key('first-key-of-thirty-two-letters-x'))
    const apiKey = { secretRef: { name: 'key', key: 'api' }, jwtRbac: true }
    const cluster = await running(world, namespace, 'a', { apiKey })
    const { reference, of } = resource('VecAccessKey', namespace, 'reader')
    await world.apply(of({ access: 'r' }))
    const before = inside(await untilPhase(world, reference, 'Ready')).keyFingerprint
    const old = (await secretIn(world, namespace, 'reader')).data['token']
    // The token exists before the last pod runs the key that signed it.
    await untilNextRun(world, cluster, () => world.apply(key('other-key-of-thirty-two-letters-x')))
    await world.waitFor(
      reference,
      'signed again',
      (found) => ![undefined, before].includes(inside(found).keyFingerprint),
      300,
    )
    const { data } = await secretIn(world, namespace, 'reader')
    const engine = engineIn(world, namespace)
    t.match(await engine.call('GET', '/collections', undefined, data['token']), { status: 'ok' })
    await t.rejects(engine.call('GET', '/collections', undefined, old), /InvalidSignature/)
  },
}

const retainedSecret: Scenario = {
  title: 'a Secret that is deleted comes back with the same token, and goes with its VecAccessKey',
  async run(world, t) {
    const namespace = await world.namespace('kept')
    await running(world, namespace, 'a', SIGNING)
    const { reference, of } = resource('VecAccessKey', namespace, 'reader')
    await world.apply(of({ access: 'r' }))
    await untilPhase(world, reference, 'Ready')
    const secret = { apiVersion: 'v1', kind: 'Secret', namespace, name: 'reader' }
    const token = tokenIn(await world.get(secret))
    t.ok(token)
    await world.delete(secret)
    const again = await world.waitFor(secret, 'back', (object) => object !== undefined)
    t.equal(tokenIn(again), token)
    await world.delete(reference)
    await untilGone(world, secret)
  },
}

function tokenIn(secret: AnyObject | undefined): string | undefined {
  return (secret as { data?: Record<string, string> } | undefined)?.data?.['token']
}

export const accessKeyScenarios: Scenario[] = [
  issued,
  conditional,
  renewed,
  disabled,
  foreign,
  rotated,
  retainedSecret,
]
