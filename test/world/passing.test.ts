/** The real world's waits, on the embedded API server: a state that passes is seen. */
import t, { type Test } from 'tap'
import type { Ground } from '../cluster/ground.ts'
import { states } from '../cluster/states.ts'
import { deadlineOf, openClusterWorld } from '../cluster/world.ts'
import { startApi } from './api/server.ts'
import { ApiClient, type WatchEvent } from './client.ts'
import { ManualClock } from './clock.ts'

const SETTING = { apiVersion: 'v1', kind: 'ConfigMap', namespace: 'default', name: 'setting' }

const valueOf = (object: unknown) =>
  (object as { data?: { value?: string } } | undefined)?.data?.value

async function startClient(t: Test, Client = ApiClient) {
  const api = await startApi(new ManualClock(new Date('2026-03-01T12:00:00Z')))
  const client = new Client({ server: api.url, token: api.token })
  t.teardown(async () => {
    await client.close()
    await api.close()
  })
  const metadata = { namespace: 'default', name: 'setting' }
  await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } })
  await client.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { value: 'first' } })
  return client
}

const setTo = (client: ApiClient, value: string) => client.patch(SETTING, { data: { value } })

t.test('a state is seen that is past when the action that leads to it returns', async (t) => {
  const client = await startClient(t)
  const world = openClusterWorld({ api: client, parts: [] } as unknown as Ground)
  const state = { what: 'passing', isReached: (object: unknown) => valueOf(object) === 'passing' }
  const found = await world.waitForPassing(SETTING, state, async () => {
    await setTo(client, 'passing')
    await setTo(client, 'past')
  })
  t.equal(valueOf(found), 'passing')
  t.equal(valueOf(await world.get(SETTING)), 'past')
})

t.test('a wait without an action begins with the present state', async (t) => {
  const client = await startClient(t)
  const world = openClusterWorld({ api: client, parts: [] } as unknown as Ground)
  const found = await world.waitFor(SETTING, 'there', (object) => object !== undefined)
  t.equal(valueOf(found), 'first')
})

/** Its first watch ends after one change, and two more follow before the next one begins. */
class Interrupted extends ApiClient {
  #watches = 0

  override async *watch(...args: Parameters<ApiClient['watch']>): AsyncGenerator<WatchEvent, void> {
    this.#watches += 1
    for await (const event of super.watch(...args)) {
      yield event
      if (this.#watches > 1) continue
      await setTo(this, 'third')
      await setTo(this, 'fourth')
      return
    }
  }
}

t.test('a watch that ends early continues with the change after its last one', async (t) => {
  const client = await startClient(t, Interrupted)
  const values: unknown[] = []
  for await (const object of states(client, SETTING, AbortSignal.timeout(120_000))) {
    values.push(valueOf(object))
    if (values.length === 1) await setTo(client, 'second')
    if (values.includes('fourth')) break
  }
  t.strictSame(values, ['first', 'second', 'third', 'fourth'])
})

t.test('a scenario has the time it asks for, and never less than five minutes', async (t) => {
  t.strictSame([undefined, 60, 300, 900].map(deadlineOf), [600, 300, 300, 900])
})
