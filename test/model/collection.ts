/**
 * The life of a VecCollection. Its only child is a collection in an engine, which people change by
 * hand, which is away for a while, and which a restore may hold.
 */
import type { CollectionInfo } from '../../crds/rules/answers.ts'
import { settings } from '../builders.ts'
import { inTurn, justStarted, killedAfter } from './collection-room.ts'
import type { Step } from './explore.ts'
import type { Life } from './life.ts'
import { pass, type Passing } from './pass.ts'
import { runningCluster, stored } from './resources.ts'
import { smallWorld, type SmallEngine, type SmallWorld } from './small-world.ts'
import { comes, goes } from './steps.ts'

const NAME = 'docs'
const ALIAS = 'current'
const FIELD = 'author'
const PARENT = `VecCollection/${NAME}`
/** Creation, index, alias: after each of them the service may be killed. */
const WRITES = [1, 2, 3]

export function collection(deletionPolicy: 'Delete' | 'Retain'): Life {
  const spec = {
    clusterRef: { name: 'a' },
    vectors: [{ size: 4, distance: 'Cosine' }],
    payloadIndexes: [{ field: FIELD, type: 'keyword' }],
    aliases: [ALIAS],
    deletionPolicy,
  }
  return {
    start: smallWorld([stored('VecCollection', NAME, spec)]),
    parent: PARENT,
    room: inTurn,
    rest: ['Ready'],
    more: (world) => [
      ...comes(world, runningCluster('a')),
      ...goes(world, 'VecCluster/a'),
      { name: 'the service has just started', take: (to) => pass(to, passing(justStarted)) },
      ...WRITES.map(killed),
      ...others(world.engine),
      ...people(world.engine),
    ],
  }
}

function passing(room: Passing['room']): Passing {
  return { parent: PARENT, room, settings }
}

/** What it wrote to the engine stays; what it would have answered is lost. */
function killed(writes: number): Step<SmallWorld> {
  return {
    name: `the service is killed after ${writes} writes`,
    take: (to) => pass({ ...to, live: structuredClone(to.live) }, passing(killedAfter(writes))),
  }
}

/** What happens to the engine besides. */
function others({ isReady, holder }: SmallEngine): Step<SmallWorld>[] {
  return [
    change(isReady ? 'the engine is away' : 'the engine is back', (engine) => {
      engine.isReady = !isReady
    }),
    change(holder === undefined ? 'a restore begins' : 'the restore ends', (engine) => {
      if (holder === undefined) engine.holder = 'VecRestore ns/back'
      else delete engine.holder
    }),
  ]
}

/** What people do by hand. */
function people({ collections, aliasTargets }: SmallEngine): Step<SmallWorld>[] {
  const info = collections.get(NAME)?.info
  return [
    ...(info === undefined ? [] : byHand(info)),
    ...(aliasTargets.get(ALIAS) === NAME
      ? [
          change('the alias is deleted', (engine) => void engine.aliasTargets.delete(ALIAS)),
          change('the alias is moved', (engine) => void engine.aliasTargets.set(ALIAS, 'other')),
        ]
      : []),
  ]
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
