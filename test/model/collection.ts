/**
 * The life of a VecCollection. It manages a collection in an engine, which users change by hand, which is
 * unavailable for a while, and on which a restore may hold the Lease.
 */
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { settings } from '../builders.ts'
import { longRunning, justStarted, killedAfter } from './collection-hooks.ts'
import type { Step } from './explore.ts'
import type { Life } from './life.ts'
import { pass, type Passing } from './pass.ts'
import { runningCluster, stored } from './resources.ts'
import { smallWorld, type SmallEngine, type SmallWorld } from './small-world.ts'
import { comes, edited, goes, striking } from './steps.ts'

const NAME = 'docs'
const ALIAS = 'current'
const FIELD = 'author'
const PARENT = `VecCollection/${NAME}`
/** The service may be killed after each of its writes: collection, index, alias. */
const WRITES = [1, 2, 3]

export function collections(): Record<string, Life> {
  const life = (
    deletionPolicy: 'Delete' | 'Retain',
    left: Record<string, number>,
    more: NonNullable<Life['more']>,
  ): Life => ({
    start: smallWorld([stored('VecCollection', NAME, { ...SPEC, deletionPolicy })], left),
    parent: PARENT,
    hooks: longRunning,
    rest: ['Ready', 'Degraded'],
    more: (world) => [
      ...comes(world, CLUSTER),
      { name: 'the service has just started', take: (to) => pass(to, passing(justStarted)) },
      ...more(world),
    ],
  })
  const all: NonNullable<Life['more']> = (world) => [
    ...goes(world, 'VecCluster/a'),
    ...WRITES.flatMap((writes) => striking(world, 'kills', killed(writes))),
    ...others(world),
    ...manualChanges(world),
    ...changes(world),
  ]
  return {
    'one life': life('Delete', { deletions: 1, kills: 1 }, all),
    'data is retained': life('Retain', { deletions: 1, kills: 1, losses: 1 }, all),
    'changed by hand': life('Delete', { deletions: 1, hands: 2 }, all),
    'others in progress': life('Delete', { deletions: 1, aways: 1, starts: 1, losses: 1 }, all),
    'another spec': life('Delete', { deletions: 1, changes: 2, kills: 1 }, all),
    'two services': life('Delete', { deletions: 1, 'slow services': 1 }, all),
    'two services, changed by hand': life('Delete', { hands: 1, 'slow services': 1 }, all),
    'all at once': life('Delete', { hands: 1, aways: 1, starts: 1, kills: 1 }, all),
  }
}

const CLUSTER = runningCluster('a')
const SPEC = {
  clusterRef: { name: 'a' },
  vectors: [{ size: 4, distance: 'Cosine' }],
  payloadIndexes: [{ field: FIELD, type: 'keyword' }],
  aliases: [ALIAS],
}

function changes(world: SmallWorld): Step<SmallWorld>[] {
  if (world.live[PARENT] === undefined) return []
  return striking(
    world,
    'changes',
    edited('the spec has no index', PARENT, { spec: { payloadIndexes: [] } }),
    edited('the spec has no alias', PARENT, { spec: { aliases: [] } }),
    edited('the spec has the payload on disk', PARENT, { spec: { onDiskPayload: true } }),
    edited('the spec has vectors of another size', PARENT, {
      spec: { vectors: [{ size: 8, distance: 'Cosine' }] },
    }),
  )
}

function passing(hooks: Passing['hooks']): Passing {
  return { parent: PARENT, hooks, settings }
}

/** What the service wrote to the engine stays; its answer is lost. */
function killed(writes: number): Step<SmallWorld> {
  return {
    name: `the service is killed after ${writes} writes`,
    // The service writes to the engine of this world before it is killed; nothing else of the pass is carried out.
    take: (to) => pass(to, passing(killedAfter(writes)), 'nothing'),
  }
}

/** The engine becomes unavailable, and a restore takes the Lease. */
function others(world: SmallWorld): Step<SmallWorld>[] {
  const { isReady, holder } = world.engine
  const ready = change(isReady ? 'the engine is away' : 'the engine is back', (engine) => {
    engine.isReady = !isReady
  })
  const held = change(holder === undefined ? 'a restore begins' : 'the restore ends', (engine) => {
    if (holder === undefined) engine.holder = 'VecRestore ns/back'
    else delete engine.holder
  })
  return [
    ...(isReady ? striking(world, 'aways', ready) : [ready]),
    ...(holder === undefined ? striking(world, 'starts', held) : [held]),
  ]
}

/** What users change in the engine by hand. */
function manualChanges(world: SmallWorld): Step<SmallWorld>[] {
  const { collections, aliasTargets } = world.engine
  const info = collections.get(NAME)?.info
  return striking(
    world,
    'hands',
    ...(info === undefined ? [] : byHand(info)),
    ...(aliasTargets.get(ALIAS) === NAME
      ? [
          change('the alias is deleted', (engine) => void engine.aliasTargets.delete(ALIAS)),
          change('the alias is moved', (engine) => void engine.aliasTargets.set(ALIAS, 'other')),
        ]
      : []),
  )
}

function byHand({ config, payload_schema }: CollectionInfo): Step<SmallWorld>[] {
  const inside = (what: string, to: (info: CollectionInfo) => void) =>
    change(what, ({ collections }) => {
      const found = collections.get(NAME)
      if (found !== undefined) to(found.info)
    })
  const { on_disk_payload: isOnDisk } = config.params
  return [
    change('the collection is deleted', ({ collections }) => void collections.delete(NAME)),
    inside('the payload is moved', (info) => (info.config.params['on_disk_payload'] = !isOnDisk)),
    inside('vectors of another size', (info) => (info.config.params['vectors'] = OTHER)),
    ...(FIELD in payload_schema
      ? [inside('the index is deleted', (info) => (info.payload_schema = {}))]
      : []),
  ]
}

const OTHER = { size: 8, distance: 'Cosine' }

function change(name: string, to: (engine: SmallEngine) => void): Step<SmallWorld> {
  return { name, take: async ({ engine }) => to(engine) }
}
