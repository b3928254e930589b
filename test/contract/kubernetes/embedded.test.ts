/** The embedded API server accepts and refuses what a real one does (real.test.ts recorded its answers). */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { startApi } from '../../world/api/server.ts'
import { ApiClient } from '../../world/client.ts'
import { ManualClock } from '../../world/clock.ts'
import { CASES } from './cases.ts'
import { NAMESPACE } from './objects.ts'
import { play, recordings } from './play.ts'

const { version, outcomes: recorded } = recordings()
const server = await startApi(new ManualClock(new Date('2030-01-01T00:00:00Z')))
t.teardown(() => server.close())
const client = new ApiClient({ server: server.url, token: server.token })
t.teardown(() => client.close())
await client.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })

for (const played of CASES) {
  t.test(played.title, async (t) => {
    t.strictSame(await play(server, played), recorded[played.title])
  })
}

t.test('each case has a title of its own and a recording', (t) => {
  t.strictSame(Object.keys(recorded).toSorted(), CASES.map(({ title }) => title).toSorted())
  t.end()
})

t.test('the page of this contract names the version that was recorded', async (t) => {
  const page = readFileSync(join(import.meta.dirname, 'README.md'), 'utf8')
  t.match(page, `the answers of kube-apiserver ${version},`)
})
