/** Rotation of an API key under continuous calls: what the documentation says is accepted is never refused. */
import type { Test } from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { PassingState, Reference, World } from '../world/world.ts'
import { NODES, THREE_NODES, TWO_COPIES } from './formation.ts'
import { inside, resource, secretIn, untilPhase } from './inside.ts'
import { clientsOf, REFUSED } from './key-clients.ts'
import {
  clusterReference,
  conditionIn,
  phaseOf,
  running,
  statusOf,
  UPGRADES_SECONDS,
  type Scenario,
} from './scenario.ts'

export const [FIRST, SECOND, THIRD] = ['first', 'second', 'third'].map(
  (name) => `${name}-key-of-more-than-thirty-two-letters`,
) as [string, string, string]
export const OVERLAP_SECONDS = 300
export const ROTATING = {
  apiKey: {
    secretRef: { name: 'key', key: 'api' },
    jwtRbac: true,
    rotation: { overlap: `${OVERLAP_SECONDS}s` },
  },
}
/** Two rollouts of three pods, each node by node, and the overlap between them. */
export const ROTATION_SECONDS = 2 * UPGRADES_SECONDS + OVERLAP_SECONDS

export function keySecret(namespace: string, value: string) {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: 'key' },
    data: { api: Buffer.from(value).toString('base64') },
  }
}

export function keyStep(object: AnyObject | undefined): string | undefined {
  return conditionIn(object, 'KeyRotated')?.reason
}

export async function untilStep(world: World, cluster: Reference, reason: string) {
  return world.waitFor(cluster, reason, (found) => keyStep(found) === reason, ROTATION_SECONDS)
}

/** Nodes that accept a key, each asked by itself. */
export async function accepting(world: World, namespace: string, nodes: number[], key: string) {
  const answers = await Promise.all(
    nodes.map(async (node) => {
      const pod = { namespace, name: `vec-a-${node}` }
      try {
        await world.engine(pod, 'GET', '/collections', undefined, key)
        return [node]
      } catch (error) {
        if (!REFUSED.test(`${(error as { status?: number }).status ?? ''} ${String(error)}`)) {
          throw error
        }
        return []
      }
    }),
  )
  return answers.flat()
}

async function storedKeys(world: World, namespace: string): Promise<string[]> {
  const { data } = await secretIn(world, namespace, 'vec-a.keys')
  return Object.values(data)
}

/** A formed cluster with a collection, and a VecAccessKey. */
async function rotatingCluster(world: World, namespace: string) {
  await world.apply(keySecret(namespace, FIRST))
  const cluster = await running(world, namespace, 'a', { ...THREE_NODES, ...ROTATING })
  await world.waitFor(
    cluster,
    'formed',
    (found) =>
      statusOf(found).formedNodes === NODES.length &&
      conditionIn(found, 'ShardsPlaced')?.status === 'True',
    UPGRADES_SECONDS,
  )
  const vectors = { size: 4, distance: 'Dot' }
  const pod = { namespace, name: 'vec-a-0' }
  await world.engine(pod, 'PUT', '/collections/books', { vectors, ...TWO_COPIES })
  const reader = resource('VecAccessKey', namespace, 'reader')
  await world.apply(reader.of({ access: 'r' }))
  await untilPhase(world, reader.reference, 'Ready')
  return { cluster, reader: reader.reference }
}

const underCalls: Scenario = {
  title:
    'H12: a key is rotated under calls with both keys and with tokens, and none of them is refused',
  async run(world, t) {
    const namespace = await world.namespace('rotation')
    const { cluster, reader } = await rotatingCluster(world, namespace)
    t.equal(keyStep(await world.get(cluster)), 'KeyCurrent')
    // Events of the installation count for their own minute.
    await world.advance(60)
    const clients = clientsOf(world, namespace)
    try {
      await rotate(world, t, { namespace, cluster, reader, clients })
    } finally {
      await clients.close()
    }
    t.strictSame(clients.refused, [])
    // The pods of the installation, those with both keys, and those with the new one.
    t.strictSame(clients.pods(), [3, 3, 3])
  },
}

interface Rotation {
  namespace: string
  cluster: Reference
  reader: Reference
  clients: ReturnType<typeof clientsOf>
}

async function rotate(world: World, t: Test, { namespace, cluster, reader, clients }: Rotation) {
  const published = async () => (await secretIn(world, namespace, 'vec-a-apikey')).data['api-key']
  const token = async () => (await secretIn(world, namespace, 'reader')).data['token']
  const oldToken = await token()
  const oldFingerprint = inside(await world.get(reader)).keyFingerprint
  clients.start('a client that reads vec-a-apikey', published)
  clients.start('a client that reads its token', token)
  clients.start('a client that keeps the former key', async () => FIRST)
  clients.start('a client that keeps its token', async () => oldToken)
  await world.apply(keySecret(namespace, SECOND))

  const overlapping = await untilStep(world, cluster, 'FormerKeyAccepted')
  t.equal(await published(), SECOND)
  clients.start('a client that has changed', async () => SECOND)
  const { keyRotation } = statusOf(overlapping)
  t.strictSame(keyRotation?.acceptedBy, { published: NODES, former: NODES })
  t.strictSame(await accepting(world, namespace, NODES, FIRST), NODES)
  const renewed = await world.waitFor(
    reader,
    'signed with the new key',
    (found) => ![undefined, oldFingerprint].includes(inside(found).keyFingerprint),
    OVERLAP_SECONDS,
  )
  t.equal(inside(renewed).keyFingerprint, keyRotation?.publishedKey)
  await world.advance(OVERLAP_SECONDS / 2)
  t.equal(keyStep(await world.get(cluster)), 'FormerKeyAccepted')
  t.ok(clients.stop('a client that keeps the former key') > NODES.length)
  t.ok(clients.stop('a client that keeps its token') > NODES.length)

  const done = await untilStep(world, cluster, 'KeyCurrent')
  t.equal(phaseOf(done), 'Running')
  t.equal(statusOf(done).keyRotation, undefined)
  t.strictSame(await accepting(world, namespace, NODES, FIRST), [], 'refused by every node')
  t.strictSame(await accepting(world, namespace, NODES, SECOND), NODES)
  await world.waitFor(
    { apiVersion: 'v1', kind: 'Secret', namespace, name: 'vec-a.keys' },
    'without the former key',
    (found) => Object.keys((found as { data?: object } | undefined)?.data ?? {}).length === 1,
  )
  t.strictSame(await storedKeys(world, namespace), [SECOND])
  t.ok(clients.stop('a client that has changed') > NODES.length)
  t.ok(clients.stop('a client that reads vec-a-apikey') > NODES.length)
  t.ok(clients.stop('a client that reads its token') > NODES.length)
  const texts = [JSON.stringify(done), await world.serviceLog()]
  t.notOk(texts.some((text) => text.includes(FIRST) || text.includes(SECOND)))
}

const changedAgain: Scenario = {
  title: 'a key that changes again in the middle, and one that is taken back, leave one key',
  async run(world, t) {
    const namespace = await world.namespace('rotation-again')
    await world.apply(keySecret(namespace, FIRST))
    const cluster = await running(world, namespace, 'a', ROTATING)
    const published = async () => (await secretIn(world, namespace, 'vec-a-apikey')).data['api-key']
    const adding: PassingState = {
      what: 'AddingKey',
      isReached: (found) => keyStep(found) === 'AddingKey',
      seconds: ROTATION_SECONDS,
    }
    await world.waitForPassing(cluster, adding, () => world.apply(keySecret(namespace, SECOND)))
    await world.apply(keySecret(namespace, THIRD))
    await untilStep(world, cluster, 'FormerKeyAccepted')
    t.equal(await published(), THIRD, 'the second one was never published')
    t.strictSame(await accepting(world, namespace, [0], FIRST), [0])
    t.strictSame(await accepting(world, namespace, [0], SECOND), [])

    await world.apply(keySecret(namespace, FIRST))
    await world.waitFor(
      { apiVersion: 'v1', kind: 'Secret', namespace, name: 'vec-a-apikey' },
      'published again',
      (found) => valueIn(found, 'api-key') === FIRST,
      UPGRADES_SECONDS,
    )
    t.strictSame(await accepting(world, namespace, [0], THIRD), [0])
    await untilStep(world, cluster, 'KeyCurrent')
    t.strictSame(await accepting(world, namespace, [0], THIRD), [])
    t.strictSame(await accepting(world, namespace, [0], FIRST), [0])
    await world.patch(clusterReference(namespace, 'a'), { spec: { apiKey: { rotation: null } } })
    await world.waitFor(
      { apiVersion: 'v1', kind: 'Secret', namespace, name: 'vec-a.keys' },
      'gone',
      (found) => found === undefined,
      UPGRADES_SECONDS,
    )
    t.strictSame(await accepting(world, namespace, [0], FIRST), [0])
  },
}

function valueIn(secret: AnyObject | undefined, key: string): string | undefined {
  const encoded = (secret as { data?: Record<string, string> } | undefined)?.data?.[key]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
}

export const keyRotations: Scenario[] = [underCalls, changedAgain]
