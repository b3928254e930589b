/** The life of a VecAccessKey: its Secret has a valid token, whatever happens to the API key and the cluster. */
import { keyFingerprint } from '../../crds/contract/api-keys.ts'
import { parseProgress } from '../../crds/contract/job.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { accessKeyHooks } from '../../hooks/access-key/index.ts'
import { applied, progress, settings } from '../builders.ts'
import type { Step } from './explore.ts'
import type { Life } from './life.ts'
import { pass } from './pass.ts'
import { portsOver } from './ports.ts'
import { stored } from './resources.ts'
import { at, create, edit, remove, smallWorld, type Small, type SmallWorld } from './small-world.ts'
import { comes, edited, goes, striking } from './steps.ts'

const PARENT = 'VecAccessKey/reader'
const SPEC = { clusterRef: { name: 'a' }, access: 'r', ttl: '1h' }
const CLUSTER = stored('VecCluster', 'a', {
  version: '1.18.3',
  apiKey: { autoGenerate: true, jwtRbac: true },
})
const CLUSTER_KEY = 'VecCluster/a'
const API_KEY = 'Secret/vec-a-apikey'
const KEY_DATA = { data: { 'api-key': 'a2V5a2V5a2V5' } }
const KEY = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'vec-a-apikey' },
  ...KEY_DATA,
} as const

export function accessKeys(): Record<string, Life> {
  const life = (
    left: Record<string, number>,
    more: NonNullable<Life['more']> = () => [],
  ): Life => ({
    start: smallWorld([stored('VecAccessKey', 'reader', SPEC), CLUSTER], left),
    parent: PARENT,
    hooks: (world) => accessKeyHooks(portsOver(world)),
    rest: ['Ready'],
    wrong: tokenIsLost,
    more: (world) => [...comes(world, KEY), ...helmRuns(world), ...more(world)],
  })
  return {
    'one life': life({ deletions: 1, 'lost answers': 1 }),
    'its dependencies change': life(
      { changes: 1, losses: 1, 'lost answers': 1 },
      dependenciesChange,
    ),
    'two services': life({ 'slow services': 1, changes: 1 }, dependenciesChange),
    'two services, one of which has cached the API key': life(
      { caches: 1, changes: 1 },
      (world) => [...dependenciesChange(world), ...secondService(world)],
    ),
    'another owner has the Secret': life({ deletions: 1, losses: 1, changes: 1 }, taken),
  }
}

/** A run writes its key into the Secret again, or reports the one that it has written. */
function helmRuns({ live }: SmallWorld): Step<SmallWorld>[] {
  const { metadata } = live[CLUSTER_KEY] ?? {}
  const { data } = live[API_KEY] ?? {}
  if (metadata?.uid === undefined || data === undefined) return []
  const { uid, annotations } = metadata
  const key = Buffer.from(data['api-key'] ?? '', 'base64').toString()
  const reported = parseProgress(annotations?.[ANNOTATIONS.progress], uid)?.applied?.publishedKey
  const publishedKey = keyFingerprint(key)
  if (reported === publishedKey) return []
  const report = JSON.stringify(progress({ uid, applied: applied({ publishedKey }) }))
  const isForeign = reported !== undefined
  return [
    edited('a helm run reports the API key', CLUSTER_KEY, {
      annotations: { ...annotations, [ANNOTATIONS.progress]: report },
    }),
    ...(isForeign
      ? [
          {
            name: 'a helm run writes the API key again',
            take: async (to: SmallWorld) =>
              edit(to, API_KEY, (found) => ({ ...found, ...KEY_DATA })),
          },
        ]
      : []),
  ]
}

function dependenciesChange(world: SmallWorld): Step<SmallWorld>[] {
  const data = (key: string, name: string, change: Record<string, string>) => ({
    name,
    take: async (to: SmallWorld) =>
      edit(to, key, (found) => ({ ...found, data: { ...found.data, ...change } })),
  })
  const cluster = world.live['VecCluster/a']
  const isOff = JSON.stringify(cluster?.spec ?? {}).includes('"jwtRbac":false')
  const rbac = (name: string, jwtRbac: boolean) =>
    edited(name, 'VecCluster/a', { spec: { apiKey: { autoGenerate: true, jwtRbac } } })
  return [
    ...comes(world, CLUSTER),
    ...goes(world, 'VecCluster/a'),
    ...goes(world, 'Secret/vec-a-apikey'),
    ...goes(world, 'Secret/reader'),
    ...(isOff ? [rbac('tokens are allowed', true)] : []),
    ...striking(
      world,
      'changes',
      data('Secret/vec-a-apikey', 'the API key changes', { 'api-key': 'b3RoZXI=' }),
      data('Secret/reader', 'the token is overwritten', { token: 'b3RoZXI=' }),
      edited('the ttl changes', PARENT, { spec: { ttl: '2h' } }),
      ...(cluster === undefined || isOff ? [] : [rbac('tokens are not allowed', false)]),
    ),
  ]
}

/** The memory of the second service, as an object that no pass reads. */
const MEMORY = 'Memory/second'
const CACHED_MS = 60_000

/** A second service that has read the Secret of the API key, and uses what it read for a minute. */
function secondService(world: SmallWorld): Step<SmallWorld>[] {
  const memory = world.live[MEMORY]
  if (memory === undefined) {
    return striking(world, 'caches', {
      name: 'a second service reads the API key',
      async take(to) {
        const { data } = to.live['Secret/vec-a-apikey'] ?? {}
        const spec = { cachedAt: at(to), ...(data && { secret: { ...KEY, data } }) }
        create(to, { apiVersion: 'v1', kind: 'Memory', metadata: { name: 'second' }, spec })
      },
    })
  }
  const passing = { parent: PARENT, hooks: withMemory(memory), settings }
  return [
    { name: 'a pass of the second service', take: (to) => pass(to, passing) },
    { name: 'the second service ends', take: async (to) => remove(to, MEMORY) },
  ]
}

function withMemory({ spec }: Small) {
  const { cachedAt, secret } = spec as { cachedAt: string; secret?: Small }
  return (world: SmallWorld) => {
    const ports = portsOver(world)
    const isCached = world.now - Date.parse(cachedAt) < CACHED_MS
    const cached = async () => secret as unknown as Secret | undefined
    return accessKeyHooks({ ...ports, ...(isCached && { secret: cached }) })
  }
}

const THEIRS = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'reader' },
  data: { a: 'YQ==' },
}

function taken(world: SmallWorld): Step<SmallWorld>[] {
  const theirs = world.live['Secret/reader']
  const isTheirs = theirs !== undefined && theirs.metadata.ownerReferences === undefined
  const isFree = theirs === undefined
  return [
    ...(isFree ? striking(world, 'changes', ...comes(world, THEIRS)) : []),
    // Not a strike: the goal may depend on the other owner deleting its Secret.
    ...(isTheirs ? goes({ ...world, left: { losses: 1 } }, 'Secret/reader').map(free) : []),
  ]
}

function free({ name, take }: Step<SmallWorld>): Step<SmallWorld> {
  return { name, take }
}

/** A pass neither deletes an existing token nor writes the Secret of another owner. */
function tokenIsLost(before: SmallWorld, after: SmallWorld): string[] {
  const secret = before.live['Secret/reader']
  const now = after.live['Secret/reader']
  const isUnchanged = secret === undefined || now?.metadata.uid === secret.metadata.uid
  const isTheirs = secret !== undefined && secret.metadata.ownerReferences === undefined
  if (isTheirs && now !== undefined && now !== secret)
    return ['the Secret of another owner is written']
  if (isUnchanged || after.live[PARENT] === undefined) return []
  return before.left['losses'] === after.left['losses'] && !isTheirs ? ['the token is lost'] : []
}
