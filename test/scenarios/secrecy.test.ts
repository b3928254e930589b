/** The search for leaked secrets finds one wherever it is. */
import t from 'tap'
import { startEmbeddedWorld } from '../world/embedded.ts'
import { clusterManifest } from './scenario.ts'
import { leakedSecrets } from './secrecy.ts'

t.test('a secret in an annotation or an Event is found, a certificate is none', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const namespace = await world.namespace('leaked')
  const stringData = { key: 'do-not-leak-this', 'tls.crt': 'may-be-public' }
  const metadata = { namespace, name: 'mine' }
  await world.apply({ apiVersion: 'v1', kind: 'Secret', metadata, stringData })
  const cluster = clusterManifest(namespace, 'a', { version: world.versions.newer })
  t.strictSame(await leakedSecrets(world, [namespace]), [])

  const annotations = { note: `may-be-public, ${stringData.key}` }
  await world.apply({ ...cluster, metadata: { namespace, name: 'a', annotations } })
  const involvedObject = { apiVersion: 'v1', kind: 'Secret', ...metadata, uid: 'u' }
  const message = Buffer.from(stringData.key).toString('base64')
  const event = { involvedObject, type: 'Normal', reason: 'Leaked', message }
  const named = { namespace, name: 'event' }
  await world.apply({ apiVersion: 'v1', kind: 'Event', metadata: named, ...event })
  const secret = `Secret ${namespace}/mine, key key,`
  t.strictSame(await leakedSecrets(world, [namespace]), [
    `${secret} in Event ${namespace}/event`,
    `${secret} in VecCluster ${namespace}/a`,
  ])
})
