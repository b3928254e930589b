/** Which engines a migration connects to, and with which of its mounted credentials. */
import t from 'tap'
import type { MigrationPlan } from '../../../crds/contract/migration-job.ts'
import type { Dependencies } from '../../../jobs/dependencies.ts'
import { connectEndpoints } from '../../../jobs/migration/context.ts'

const TARGET = { name: 'b', namespace: 'ns', replicas: 2 }
/** The client Service of the target, and each of its pods. */
const TARGETS = [TARGET, [TARGET, 0], [TARGET, 1]]

/** The arguments of the calls that connect to the source and to the target. */
function connectionsTo(source: unknown) {
  const calls: unknown[] = []
  const connect = (...given: unknown[]) => {
    calls.push(given.length === 1 ? given[0] : given)
    return {}
  }
  const tools = { engineForAddress: connect, engineForPod: connect } as unknown as Dependencies
  const plan = { source, target: TARGET } as unknown as MigrationPlan
  const { source: from, target } = connectEndpoints(plan, tools)
  t.strictSame([from.role, target.role], ['source', 'target'])
  return calls
}

t.test(
  'a VecCluster and each of its pods are read with the key and the CA of its own Secrets',
  async (t) => {
    const cluster = { name: 'a', namespace: 'far', replicas: 2 }
    const engine = {
      address: cluster,
      key: { credential: 'source-engine', file: 'api-key' },
      ca: { credential: 'source-tls', file: 'ca.crt' },
    }
    t.strictSame(connectionsTo({ cluster }), [
      engine,
      { ...engine, ordinal: 0 },
      { ...engine, ordinal: 1 },
      ...TARGETS,
    ])
  },
)

t.test('another engine is read with the keys that the spec names, or without', async (t) => {
  const url = 'https://engine.example.com:6333'
  t.strictSame(connectionsTo({ url, apiKey: 'token', ca: 'root.pem' }), [
    {
      address: url,
      key: { credential: 'source-engine', file: 'token' },
      ca: { credential: 'source-tls', file: 'root.pem' },
    },
    ...TARGETS,
  ])
  t.strictSame(connectionsTo({ url }), [
    { address: url, key: undefined, ca: undefined },
    ...TARGETS,
  ])
})
