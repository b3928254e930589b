/** The embedded world is a cluster with the operator in it. */
import t from 'tap'
import type { VecCluster } from '../../crds/cluster.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { matchWhole } from '../match-whole.ts'
import { ApiClient } from './client.ts'
import { startEmbeddedWorld } from './embedded.ts'

const phaseOf = (object: AnyObject | undefined) => (object as VecCluster | undefined)?.status?.phase

t.test('a VecCluster becomes Pending, then Running, and can be deleted', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const namespace = await world.namespace('life')
  const metadata = { namespace, name: 'a' }
  const spec = { version: world.versions.newer, replicas: 2 }
  const reference = { apiVersion: API_VERSION, kind: 'VecCluster', ...metadata }
  const made = await world.apply({ apiVersion: API_VERSION, kind: 'VecCluster', metadata, spec })
  t.equal(phaseOf(made), undefined)
  await world.waitFor(reference, 'Pending', (object) => phaseOf(object) === 'Pending')
  const object = await world.waitFor(reference, 'Running', (found) => phaseOf(found) === 'Running')
  t.match(object, { status: { readyReplicas: 2, version: world.versions.newer } })
  const [job] = await world.list('batch/v1', 'Job', namespace)
  t.match(await world.logs(namespace, job?.metadata.name ?? ''), /completed/)
  t.match(await world.engine({ namespace, name: 'vec-a-1' }, 'GET', '/'), {
    version: world.versions.newer,
  })

  await world.delete(reference)
  await world.waitFor(reference, 'gone', (found) => found === undefined)
  t.strictSame(await world.list('apps/v1', 'StatefulSet', namespace), [])
})

t.test('answers to finalize do not depend on how old the status in the request is', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const namespace = await world.namespace('older')
  const metadata = { namespace, name: 'a' }
  const spec = { version: world.versions.newer }
  const reference = { apiVersion: API_VERSION, kind: 'VecCluster', ...metadata }
  await world.apply({ apiVersion: API_VERSION, kind: 'VecCluster', metadata, spec })
  const parent = await world.waitFor(
    reference,
    'with a record of its nodes',
    (object) => (object as VecCluster | undefined)?.status?.nodes !== undefined,
  )
  const finalize = async (status: object) => {
    const request = { parent: { ...parent, status }, children: {}, related: {} }
    const body = { ...request, finalizing: true, controller: {} }
    return world.callHook('/vecclusters/finalize', body)
  }
  const current = await finalize((parent as VecCluster).status ?? {})
  const { nodes: _, ...older } = (parent as VecCluster).status ?? {}
  t.equal(current.status, 200)
  matchWhole(t, JSON.parse(current.text), { status: { nodes: [{ ordinal: 0 }] } })
  t.strictSame(await finalize(older), current)
})

t.test('an account of the operator may do what the chart permits, and nothing else', async (t) => {
  const world = await startEmbeddedWorld()
  t.teardown(() => world.close())
  const { url: server, serviceToken, loopToken } = world.api
  const namespace = await world.namespace('rights')
  const pod = world.api.accountToken({ namespace, name: 'default' })
  const list = async (token: string, apiVersion: string, kind: string) => {
    const client = new ApiClient({ server, token })
    t.teardown(() => client.close())
    return client.list(apiVersion, kind, { namespace })
  }
  await t.resolves(list(serviceToken, 'batch/v1', 'Job'))
  await t.rejects(list(serviceToken, 'v1', 'Secret'), { message: /^secrets is forbidden: User / })
  await t.resolves(list(loopToken, 'v1', 'Secret'))
  await t.rejects(list(pod, 'batch/v1', 'Job'), { message: /^jobs.batch is forbidden: User / })
})

t.test('a world in which an unknown field was sent ends with an error that names it', async (t) => {
  const world = await startEmbeddedWorld()
  const namespace = await world.namespace('typo')
  const metadata = { name: 'a', namespace }
  const typo = { apiVersion: 'v1', kind: 'ConfigMap', metadata, dat: { a: 'b' } }
  const stored = await world.apply(typo)
  t.equal((stored as { dat?: object }).dat, undefined)
  await t.rejects(world.close(), {
    message: `POST ConfigMap ${namespace}/: unknown field "dat"`,
  })
})
