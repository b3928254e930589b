/** The plan of a VecMigration's Job. */
import t from 'tap'
import { desiredPlan } from '../../../hooks/migration/job.ts'
import { formatSource } from '../../../hooks/migration/endpoints.ts'
import { CLUSTERS, ENDPOINT, migration, running } from './objects.ts'

const outside = migration({ spec: { source: ENDPOINT } })

t.test('a plan is created once both sides are there', async (t) => {
  t.match(desiredPlan(migration(), CLUSTERS), {
    ...{ resource: 'vecmigrations', namespace: 'ns', name: 'm', uid: 'uid-m' },
    source: { cluster: { namespace: 'ns', name: 'b' } },
    target: { namespace: 'ns', name: 'a' },
  })
  t.equal(desiredPlan(migration(), { source: running('b') }), undefined)
  t.equal(desiredPlan(migration(), { target: running('a') }), undefined)
  t.equal(desiredPlan(migration(), {}), undefined)
  t.equal(
    desiredPlan(migration({ spec: { source: {} } }), CLUSTERS),
    undefined,
    'it names no source',
  )
})

t.test('an engine outside is called by its address, without the slashes at its end', async (t) => {
  const url = 'https://db.example/qdrant//'
  const bare = migration({ spec: { source: { endpoint: { url } } } })
  t.strictSame(desiredPlan(bare, CLUSTERS)?.source, { url: 'https://db.example/qdrant' })
  t.strictSame(desiredPlan(outside, CLUSTERS)?.source, {
    ...{ url: 'https://db.example:6333', apiKey: 'token', ca: 'bundle.pem' },
  })
})

t.test('another source or target is another plan', async (t) => {
  const plans = [
    desiredPlan(migration(), CLUSTERS),
    desiredPlan(migration(), { ...CLUSTERS, target: running('a', { spec: { replicas: 3 } }) }),
    desiredPlan(migration(), { ...CLUSTERS, source: running('b', { spec: { replicas: 3 } }) }),
    desiredPlan(outside, CLUSTERS),
  ]
  t.equal(new Set(plans.map((plan) => plan?.hash)).size, plans.length)
})

t.test('the status names the source as cluster or as address', async (t) => {
  t.equal(formatSource(migration()), 'ns/b')
  t.equal(
    formatSource(migration({ spec: { source: { clusterRef: { name: 'b', namespace: 'far' } } } })),
    'far/b',
  )
  t.equal(formatSource(outside), 'https://db.example:6333/')
})
