/** Our loop writes nothing in a pass without changes, like the real one: see docs/metacontroller-notes.md. */
import t from 'tap'
import { startApi } from '../../world/api/server.ts'
import { ApiClient, type ApiObject } from '../../world/client.ts'
import { ManualClock } from '../../world/clock.ts'
import { configMap, DEFINITIONS } from './kinds.ts'
import { Stage } from './stage.ts'
import { loopSubject } from './subject.ts'

class CountingClient extends ApiClient {
  writes = 0

  override async create(object: object): Promise<ApiObject> {
    this.writes += 1
    return super.create(object)
  }

  override async replace(object: object): Promise<ApiObject> {
    this.writes += 1
    return super.replace(object)
  }

  override async replaceStatus(object: object): Promise<ApiObject> {
    this.writes += 1
    return super.replaceStatus(object)
  }

  override async delete(...call: Parameters<ApiClient['delete']>): Promise<void> {
    this.writes += 1
    return super.delete(...call)
  }
}

for (const method of ['OnDelete', 'InPlace', 'Recreate']) {
  t.test(`with ${method} a pass that finds everything as desired writes nothing`, async (t) => {
    const clock = new ManualClock(new Date('2030-01-01T00:00:00Z'))
    const embedded = await startApi(clock)
    const api = new CountingClient({ server: embedded.url, token: embedded.token })
    for (const definition of DEFINITIONS) await api.create(definition)
    const stage = await Stage.open(loopSubject(api, clock), 'stage-1')
    t.teardown(async () => {
      await stage.close()
      await api.close()
      await embedded.close()
    })
    const going = configMap('going', {}, { finalizers: ['contract/keep'] })
    const desired = [
      configMap('one', { colour: 'red' }),
      configMap('two', {}, { labels: { a: 'b' } }),
    ]
    stage.hooks.answer('sync', ({ parent }) => ({
      status: { phase: 'Same' },
      children: parent.metadata.annotations === undefined ? [...desired, going] : desired,
    }))
    await stage.start({ methods: { ConfigMap: method }, spec: { resyncPeriodSeconds: 60 } })
    await stage.thing()
    await stage.untilThere('ConfigMap', 'going')
    await stage.quiet()
    // From now on one child is being deleted, which a finalizer keeps from being gone.
    await stage.touch('once')
    await stage.quiet()

    const [before, calls] = [api.writes, stage.hooks.calls.length]
    await stage.subject.pass(600)
    t.equal(stage.hooks.calls.length - calls, 10)
    t.equal(api.writes - before, 0)
  })
}
