/** What a user may read is read whole, and a credential in it is found in each form. */
import { createHash } from 'node:crypto'
import t from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { running } from './scenario.ts'
import { leaksIn, secretValues } from './secrecy.ts'
import { credentialsIn, readerOf } from './visible.ts'

const KEY = 'a-key-of-more-than-thirty-two-letters~~??'
const base64 = (text: string) => Buffer.from(text).toString('base64')

function secretOf(data: Record<string, string>): AnyObject {
  const metadata = { namespace: 'ns', name: 'mine' }
  const encoded = Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, base64(value)] as const),
  )
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: encoded }
  return secret
}

t.test('objects of all kinds are read, and the logs of pods', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const namespace = await world.namespace('viewed')
  const metadata = { namespace, name: 'note' }
  await world.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { note: KEY } })
  await running(world, namespace, 'a')
  const { kinds, read } = await readerOf(await world.tenant(namespace, 'view'), namespace)
  t.ok(kinds.includes('api/v1/pods') && kinds.includes('api/v1/configmaps'))
  const texts = await read()
  t.ok(texts.some(({ where }) => where === `VecCluster ${namespace}/a`))
  t.ok(
    texts.some(
      ({ where, text }) =>
        /^the log of a-upgrade-.*, container cluster$/.test(where) && text !== '',
    ),
  )
  t.strictSame(leaksIn(texts, secretValues([secretOf({ key: KEY })])), [
    `Secret ns/mine, key key, in ConfigMap ${namespace}/note`,
  ])
})

t.test('a value is found as it is and in base64, wherever it begins, and by a longer hash', (t) => {
  const hash = createHash('sha256').update(KEY).digest('hex')
  const texts = {
    plain: `{"a":"${KEY}"}`,
    base64: base64(KEY),
    'base64 at 1': base64(`x${KEY}, and more`),
    'base64 at 2': base64(`xy${KEY}, and more`),
    'base64 for addresses': Buffer.from(`x${KEY}`).toString('base64url'),
    'a long hash': hash.slice(0, 17),
    'a line of several': '{"a":"first-line-of-a-value"}',
    'a fingerprint': hash.slice(0, 16),
    'a part': KEY.slice(0, -1),
    'a certificate': 'a-certificate-of-no-secret',
    'a mark': '-----BEGIN PRIVATE KEY-----',
  }
  const values = secretValues([
    secretOf({
      key: KEY,
      lines: `-----BEGIN PRIVATE KEY-----\nfirst-line-of-a-value\nsecond-line-of-a-value`,
      'tls.crt': 'a-certificate-of-no-secret',
    }),
  ])
  const all = Object.entries(texts).map(([where, text]) => ({ where, text }))
  t.strictSame(leaksIn(all, values), [
    'Secret ns/mine, key key, in plain',
    'Secret ns/mine, key key, in base64',
    'Secret ns/mine, key key, in base64 at 1',
    'Secret ns/mine, key key, in base64 at 2',
    'Secret ns/mine, key key, in base64 for addresses',
    'Secret ns/mine, key key, in a long hash',
    'Secret ns/mine, key lines, in a line of several',
  ])
  t.end()
})

t.test('tokens and presigned addresses are found without their Secret', (t) => {
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const token = `${part({ alg: 'HS256' })}.${part({ access: 'm' })}.${'s'.repeat(43)}`
  const texts = [
    { where: 'a log', text: `authorization: Bearer ${token}` },
    { where: 'an Event', text: `GET http://store/b/k?X-Amz-Signature=${'0f'.repeat(32)}` },
    { where: 'a status', text: 'X-Amz-Signature=***, eyJ.eyJ.x' },
  ]
  t.strictSame(credentialsIn(texts), ['a token in a log', 'a presigned address in an Event'])
  t.end()
})
