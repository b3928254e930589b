import t from 'tap'
import { pino } from 'pino'
import { VecCluster } from '../../crds/cluster.ts'
import { room } from '../../hooks/room.ts'
import { buildServer } from '../../hooks/server.ts'
import { hookMetrics } from '../../metacontroller/metrics.ts'
import { cluster, NOW, settings } from '../builders.ts'

t.test('an answer that the guard keeps from the wire is counted by its route', async (t) => {
  const metrics = hookMetrics()
  const server = buildServer({
    rooms: [
      room({
        resource: VecCluster,
        childKinds: [],
        customize: () => [],
        sync: async () => ({ status: { phase: 'Nonsense' }, children: [] }),
        finalize: async () => ({ status: {}, children: [] }),
      }),
    ],
    tokens: () => [],
    log: pino({ level: 'silent' }),
    now: () => NOW,
    settings,
    namespaces: [],
    metrics,
  })
  const payload = { parent: cluster(), children: {}, related: {}, finalizing: false }
  const answer = await server.inject({ method: 'POST', url: '/vecclusters/sync', payload })
  t.equal(answer.statusCode, 500)
  const text = await metrics.text()
  t.match(text, 'vec_operator_guard_refusals_total{route="/vecclusters/sync"} 1')
  t.match(text, 'vec_operator_hook_requests_total{kind="VecCluster",hook="sync",code="500"} 1')
})
