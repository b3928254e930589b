/**
 * The life of a VecCollection. Its only child is a collection in an engine, which people change by
 * hand, which is away for a while, and which a restore may hold.
 */
import type { CollectionInfo } from '../../crds/engine/collections.ts'
import { settings } from '../builders.ts'
import { inTurn, justStarted, killedAfter } from './collection-room.ts'
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
/** Creation, index, alias: after each of them the service may be killed. */
const WRITES = [1, 2, 3]

export function collections(): Record<string, Life> {
  const life = (
    deletionPolicy: 'Delete' | 'Retain',
    left: Record<string, number>,
    more: NonNullable<Life['more']>,
  ): Life => ({
    start: smallWorld([stored('VecCollection', NAME, { ...SPEC, deletionPolicy })], left),
    parent: PARENT,
    room: inTurn,
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
    ...people(world),
    ...changes(world),
  ]
  return {
    'one life': life('Delete', { deletions: 1, kills: 1 }, all),
    'one that stays': life('Retain', { deletions: 1, kills: 1, losses: 1 }, all),
    'changed by hand': life('Delete', { deletions: 1, hands: 2 }, all),
    'others at work': life('Delete', { deletions: 1, aways: 1, turns: 1, losses: 1 }, all),
    'another spec': life('Delete', { deletions: 1, changes: 2, kills: 1 }, all),
    'all at once': life('Delete', { hands: 1, aways: 1, turns: 1, kills: 1 }, all),
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
    edited('no index is wanted', PARENT, { spec: { payloadIndexes: [] } }),
    edited('no alias is wanted', PARENT, { spec: { aliases: [] } }),
    edited('the payload is wanted on disk', PARENT, { spec: { onDiskPayload: true } }),
    edited('vectors of another size are wanted', PARENT, {
      spec: { vectors: [{ size: 8, distance: 'Cosine' }] },
    }),
  )
}

function passing(room: Passing['room']): Passing {
  return { parent: PARENT, room, settings }
}

/** What it wrote to the engine stays; what it would have answered is lost. */
function killed(writes: number): Step<SmallWorld> {
  return {
    name: `the service is killed after ${writes} writes`,
    // The engine is that of this world; what is answered goes into another.
    take: (to) => pass(to, passing(killedAfter(writes)), 'nothing'),
  }
}

/** What happens to the engine besides. */
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
    ...(holder === undefined ? striking(world, 'turns', held) : [held]),
  ]
}

/** What people do by hand. */
function people(world: SmallWorld): Step<SmallWorld>[] {
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
