/** `migration run` into a cluster of several nodes, of which one has not caught up. */
import t from 'tap'
import { startEngine } from '../engine-and-bucket.ts'
import { instantClock } from '../job-world.ts'
import { createCollection, engineCalls, manyPoints, runToDone } from './engine-pair.ts'
import { migrationWorld } from './migration-world.ts'

const NO_COLLECTIONS = {
  status: 200,
  body: '{"result":{"collections":[]},"status":"ok","time":0}',
  headers: { 'content-type': 'application/json' },
}

t.test(
  'a node of the target that does not list a copied collection yet fails nothing',
  async (t) => {
    const [source, target] = [await startEngine(t, 1), await startEngine(t, 2)]
    const [url = ''] = source.urls
    await createCollection(engineCalls(url), 'docs', manyPoints(5))
    const world = await migrationWorld(t, { source: url, ports: target.ports })
    let lists = 0
    target.nodes[0]?.misbehave(({ method, path }) => {
      if (method !== 'GET' || path.join('/') !== 'collections') return undefined
      lists += 1
      return NO_COLLECTIONS
    })
    await runToDone(t, world, { time: instantClock() })
    t.equal(lists, 1)
    t.equal(target.engine.find('docs')?.points.length, 5)
  },
)
