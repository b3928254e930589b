/** A user with Kubernetes' role `view` in the namespaces of a cluster: nothing that it may read is a credential. */
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import type { World } from '../world/world.ts'
import { backupResource, fill, points, untilEnded } from './backup-parts.ts'
import { resource, secretIn, untilPhase } from './inside.ts'
import { movingResource } from './moving-parts.ts'
import { running, type Scenario } from './scenario.ts'
import { leaksIn, secretValues, type SecretValue, type Text } from './secrecy.ts'
import { credentialsIn, readerOf, type Reader } from './visible.ts'

const KEYED = {
  apiKey: { autoGenerate: true, jwtRbac: true },
  readOnlyApiKey: { autoGenerate: true },
}
const FORBIDDEN = { message: /cannot|forbidden/ }
/** Some of what a viewer lists: without these the search would prove less than the title says. */
const LISTED = [
  ...['pods', 'events', 'configmaps', 'services', 'serviceaccounts', 'persistentvolumeclaims'].map(
    (name) => `api/v1/${name}`,
  ),
  ...['apis/apps/v1/statefulsets', 'apis/apps/v1/controllerrevisions', 'apis/batch/v1/jobs'],
  ...RESOURCES.map(({ plural }) => `apis/${API_VERSION}/${plural}`),
]
/** Secrets that must be among those that are searched for, by what their names end with. */
const SEARCHED = ['/vec-a-apikey, key api-key,', '/token, key token,', '/bucket, key ']

const viewer: Scenario = {
  title:
    'a viewer finds no key, token or bucket credential in any object or log that the role view shows, and reaches no engine',
  // The embedded API server knows no roles of users.
  only: 'cluster',
  async run(world, t) {
    const owner = await world.namespace('viewed')
    const guest = await world.namespace('viewed-guest')
    const namespaces = [owner, guest]
    const viewers = await Promise.all(namespaces.map((name) => world.tenant(name, 'view')))
    const readers = await Promise.all(
      viewers.map((user, index) => readerOf(user, namespaces[index] ?? '')),
    )
    for (const { kinds } of readers) {
      t.strictSame(
        LISTED.filter((kind) => !kinds.includes(kind)),
        [],
      )
      t.notOk(kinds.includes('api/v1/secrets'))
    }
    const lookout = new Lookout(world, namespaces, readers)
    const cluster = await lookout.during(running(world, owner, 'a', KEYED))
    for (const path of refusedReads(owner))
      for (const user of viewers) await t.rejects(user.raw('GET', path), FORBIDDEN)
    const annotations = { [ANNOTATIONS.allowedNamespaces]: guest }
    await world.patch(cluster, { metadata: { annotations } })
    await lookout.during(useEverything(world, owner, guest))

    const searched = lookout.searched()
    for (const part of SEARCHED)
      t.ok(
        searched.some((name) => name.includes(part)),
        part,
      )
    t.strictSame(lookout.leaks(), [])
    await plantLeak(world, owner)
    await lookout.look()
    t.strictSame(
      locationsOf(lookout.leaks()),
      [`ConfigMap ${owner}/planted`],
      'the same search finds a key',
    )
  },
}

/** All that works with a key, a token or credentials, in the cluster's namespace and in another. */
async function useEverything(world: World, owner: string, guest: string): Promise<void> {
  const clusterRef = { name: 'a', namespace: owner }
  const bucket = await world.bucket(owner)
  await bucket.grantAccess(guest)
  const { upsert } = await fill(world, owner, 'docs')
  await upsert({ points: points(30) })
  const collection = resource('VecCollection', owner, 'own')
  await world.apply(collection.of({ vectors: [{ size: 4, distance: 'Dot' }] }))
  await untilPhase(world, collection.reference, 'Ready')
  for (const namespace of [owner, guest]) {
    const token = resource('VecAccessKey', namespace, 'token')
    await world.apply(token.of({ clusterRef, access: 'm', ttl: '1h' }))
    await untilPhase(world, token.reference, 'Ready')
    const backup = backupResource('VecBackup', { namespace, name: `of-${namespace}` }, bucket)
    await world.apply(backup.of({ clusterRef }))
    await untilEnded(world, backup.reference)
  }
  const yearly = backupResource('VecBackupSchedule', { namespace: guest, name: 'yearly' }, bucket)
  await world.apply(yearly.of({ clusterRef, schedule: '0 0 1 1 *' }))
  const target = { targetClusterRef: clusterRef }
  const restore = movingResource('VecRestore', guest, 'r')
  const backupRef = { name: `of-${guest}` }
  const restored = { collectionMapping: { docs: 'restored' } }
  await world.apply(restore.of({ ...target, backupRef, collections: ['docs'], ...restored }))
  await restore.untilCompleted(world)
  const migration = movingResource('VecMigration', guest, 'm')
  const copied = { collectionMapping: { docs: 'copied' } }
  const source = { clusterRef }
  await world.apply(migration.of({ ...target, source, collections: ['docs'], ...copied }))
  await migration.untilCompleted(world)
}

/** Reads that would give a viewer a Secret, the environment of an engine, or the answers of one. */
function refusedReads(namespace: string): string[] {
  const root = `/api/v1/namespaces/${namespace}`
  return [
    `${root}/secrets`,
    `${root}/secrets/vec-a-apikey`,
    `${root}/pods/vec-a-0/exec?command=env`,
    `${root}/pods/http:vec-a-0:6333/proxy/collections`,
    `${root}/services/http:vec-a:6333/proxy/collections`,
  ]
}

async function plantLeak(world: World, namespace: string): Promise<void> {
  const { data } = await secretIn(world, namespace, 'vec-a-apikey')
  const metadata = { namespace, name: 'planted' }
  const note = { note: data['api-key'] }
  await world.apply({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: note })
}

/** Copies of a Secret have its value as well: a leak has a line for each. */
function locationsOf(leaks: string[]): string[] {
  return [...new Set(leaks.map((line) => line.split(' in ').at(-1) ?? ''))]
}

/** Collects what the viewers see and what is secret: a value may be gone when a text with it appears. */
class Lookout {
  readonly #world: World
  readonly #namespaces: string[]
  readonly #readers: Reader[]
  readonly #texts = new Map<string, Text>()
  readonly #values = new Map<string, SecretValue>()

  constructor(world: World, namespaces: string[], readers: Reader[]) {
    this.#world = world
    this.#namespaces = namespaces
    this.#readers = readers
  }

  /** Looks again and again until this is done, and once after it. */
  async during<Result>(work: Promise<Result>): Promise<Result> {
    let isDone = false
    const watch = async () => {
      while (!isDone) {
        await this.look()
        await this.#world.advance(1)
      }
    }
    const [result] = await Promise.all([work.finally(() => (isDone = true)), watch()])
    await this.look()
    return result
  }

  async look(): Promise<void> {
    const secrets = await this.#world.list('v1', 'Secret', '')
    const values = secretValues(secrets.filter((secret) => this.#isSearchedFor(secret)))
    for (const value of values) this.#values.set(value.name + value.forms.join(), value)
    for (const { read } of this.#readers)
      for (const text of await read()) this.#texts.set(text.where + text.text, text)
  }

  /** Names of what is searched for. */
  searched(): string[] {
    return [...this.#values.values()].map(({ name }) => name)
  }

  leaks(): string[] {
    const texts = [...this.#texts.values()]
    const leaks = [...leaksIn(texts, [...this.#values.values()]), ...credentialsIn(texts)]
    return [...new Set(leaks)].toSorted()
  }

  /** Those of the namespaces, and what the service authenticates itself and its Jobs with. */
  #isSearchedFor({ metadata: { namespace = '', name } }: AnyObject): boolean {
    return this.#namespaces.includes(namespace) || name.endsWith('-hooks')
  }
}

export const viewers: Scenario[] = [viewer]
