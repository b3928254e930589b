/** The plan of a VecMigration's Job. */
import t from 'tap'
import { wantedRun } from '../../../hooks/migration/children.ts'
import { sourceName } from '../../../hooks/migration/places.ts'
import { BOTH, ENDPOINT, migration, running } from './objects.ts'

const outside = migration({ spec: { source: ENDPOINT } })

t.test('a plan is made once both sides are there', async (t) => {
  t.match(wantedRun(migration(), BOTH), {
    ...{ resource: 'vecmigrations', namespace: 'ns', name: 'm', uid: 'uid-m' },
    source: { cluster: { namespace: 'ns', name: 'b' } },
    target: { namespace: 'ns', name: 'a' },
  })
  t.equal(wantedRun(migration(), { source: running('b') }), undefined)
  t.equal(wantedRun(migration(), { target: running('a') }), undefined)
  t.equal(wantedRun(migration(), {}), undefined)
  t.equal(wantedRun(migration({ spec: { source: {} } }), BOTH), undefined, 'it names no source')
})

t.test('an engine outside is called by its address, without the slashes at its end', async (t) => {
  const url = 'https://db.example/qdrant//'
  const bare = migration({ spec: { source: { endpoint: { url } } } })
  t.strictSame(wantedRun(bare, BOTH)?.source, { url: 'https://db.example/qdrant' })
  t.strictSame(wantedRun(outside, BOTH)?.source, {
    ...{ url: 'https://db.example:6333', apiKey: 'token', ca: 'bundle.pem' },
  })
})

t.test('another source or target is another plan', async (t) => {
  const plans = [
    wantedRun(migration(), BOTH),
    wantedRun(migration(), { ...BOTH, target: running('a', { spec: { replicas: 3 } }) }),
    wantedRun(migration(), { ...BOTH, source: running('b', { spec: { replicas: 3 } }) }),
    wantedRun(outside, BOTH),
  ]
  t.equal(new Set(plans.map((plan) => plan?.hash)).size, plans.length)
})

t.test('people read the source as cluster or as address', async (t) => {
  t.equal(sourceName(migration()), 'ns/b')
  t.equal(
    sourceName(migration({ spec: { source: { clusterRef: { name: 'b', namespace: 'far' } } } })),
    'far/b',
  )
  t.equal(sourceName(outside), 'https://db.example:6333/')
})
