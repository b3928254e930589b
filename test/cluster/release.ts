/** The operator's own release, as helm and users see it: image size, upgrade, uninstall. */
import type { Test } from 'tap'
import type { AnyObject, Lease, Secret } from '../../crds/kubernetes.ts'
import { API_GROUP, API_VERSION } from '../../crds/contract/names.ts'
import { PLURALS } from '../../metacontroller/controllers.ts'
import { conditionIn, phaseOf, running } from '../scenarios/scenario.ts'
import { referenceOf } from '../world/client.ts'
import { NotSupported, type Reference } from '../world/world.ts'
import type { Ground } from './ground.ts'
import { growthOf, recordedBytes } from './image-size.ts'
import { NAMESPACE, RELEASE } from './install.ts'
import { POD_RANGE } from './network.ts'
import type { ClusterWorld } from './world.ts'

const SEEN_SECONDS = 60
/** What a resource waits that is seen while Metacontroller pauses after failures. */
const TAKEN_OVER_SECONDS = 180

export function showImageSize(ground: Ground) {
  return async (t: Test) => {
    const made = await ground.operatorImage().catch(skippedBy(t))
    if (made === undefined) return
    const { words, isTooMuch } = growthOf(made.sizeBytes, recordedBytes())
    t.comment(`operator image: ${words}`)
    t.notOk(isTooMuch, `${words}: node test/cluster/image-size.ts --record, if it must be`)
  }
}

/** That the operator has the credentials is shown by each helm run of the other tests. */
export function showChartRepository(ground: Ground) {
  return async (t: Test) => {
    const statuses = await ground.chartRepositoryStatus().catch(skippedBy(t))
    if (statuses !== undefined) t.strictSame(statuses, [200, 401])
  }
}

/** helm pulls the chart in the pod of the Job; the operator has no other repository meanwhile. */
export function showChartRegistry(ground: Ground, world: ClusterWorld) {
  return async (t: Test) => {
    const registry = await ground.openChartRegistry().catch(skippedBy(t))
    if (registry === undefined) return
    try {
      t.strictSame(await registry.statuses(), [200, 401])
      const namespace = await world.namespace('registry')
      const cluster = await running(world, namespace, 'a')
      const ready = conditionIn(await world.get(cluster), 'Ready')
      t.equal(ready?.status, 'True')
      const pulled = registry
        .calls()
        .filter(({ from, method, status }) => isPod(from) && method === 'GET' && status === 200)
        .flatMap(({ path }) => /^[/]v2[/]charts[/]qdrant[/]([a-z]+)[/]/.exec(path)?.[1] ?? [])
      t.strictSame([...new Set(pulled)].toSorted(), ['blobs', 'manifests'])
      await world.client.delete({
        apiVersion: 'v1',
        kind: 'Namespace',
        namespace: '',
        name: namespace,
      })
    } finally {
      await registry.close()
    }
  }
}

/** It passes on a working installation, and names the hooks that cannot be called while the service is stopped. */
export function showHelmTest(ground: Ground, world: ClusterWorld) {
  return async (t: Test) => {
    const called = '7 CompositeControllers call the hooks at https://'
    const reconciled = `Metacontroller reconciled and deleted a VecCollection in the namespace ${NAMESPACE}`
    const output = await ground.helmTest()
    t.match(output, called)
    t.match(output, reconciled)
    t.strictSame(await leftBehind(ground), [])

    await world.faults.stopService()
    try {
      const failure = await ground.helmTest().then(
        () => 'helm test passed',
        (error: unknown) => String(error),
      )
      for (const plural of PLURALS) {
        t.match(
          failure,
          `CompositeController ${plural}.${API_GROUP}: hook customize cannot be called at https://`,
        )
      }
      t.notMatch(failure, reconciled)
      t.strictSame(await leftBehind(ground), [])
    } finally {
      await world.faults.startService()
    }
    t.match(await ground.helmTest(), reconciled, 'once the service is back')
  }
}

/** What a test must not leave: its resource and its permissions. */
async function leftBehind({ api }: Ground): Promise<string[]> {
  const { items: collections } = await api.list(API_VERSION, 'VecCollection')
  const found = [...collections]
  for (const kind of ['Role', 'RoleBinding', 'ClusterRole', 'ClusterRoleBinding'])
    found.push(...(await api.list('rbac.authorization.k8s.io/v1', kind)).items)
  return found
    .map(({ metadata: { name } }) => name)
    .filter((name) => name.startsWith('helm-test-') || name.endsWith('-install-check'))
}

export function showUninstall(ground: Ground, world: ClusterWorld) {
  return async (t: Test) => {
    await world.clear()
    const survivor = await collectionWithoutCluster(world, 'uninstall')
    const { namespace } = survivor
    await world.waitFor(survivor, 'seen by the operator', isSeen, SEEN_SECONDS)
    await t.rejects(ground.uninstall(), { message: new RegExp(`VecCollection ${namespace}/kept`) })

    await removed(world, survivor)
    await ground.uninstall()
    const left = async (apiVersion: string, kind: string) => {
      const { items } = await ground.api.list(apiVersion, kind)
      return items.map(({ metadata: { name } }) => name).filter((name) => /^vec|\.vec-/.test(name))
    }
    t.equal((await left('apiextensions.k8s.io/v1', 'CustomResourceDefinition')).length, 7)
    t.strictSame(await left('metacontroller.k8s.io/v1alpha1', 'CompositeController'), [])
    t.strictSame(await left('rbac.authorization.k8s.io/v1', 'ClusterRole'), [])
    t.strictSame(await left('rbac.authorization.k8s.io/v1', 'ClusterRoleBinding'), [])
  }
}

/** The other replica becomes the leader if the processes of the leader are frozen, or if its pod is deleted. */
export function showFailover(ground: Ground, world: ClusterWorld) {
  const answersHooks = async (purpose: string) => {
    const waiting = await collectionWithoutCluster(world, purpose)
    await world.waitFor(waiting, 'seen by the operator', isSeen, TAKEN_OVER_SECONDS)
    await removed(world, waiting)
  }
  /** The leader that is not this pod. */
  const leaderAfter = async (pod?: string) => {
    const isOther = (lease?: AnyObject) => ![undefined, '', pod].includes(holderOf(lease))
    return (
      holderOf(await world.waitFor(LEADER_LEASE, 'another leader', isOther, SEEN_SECONDS)) ?? ''
    )
  }
  return async (t: Test) => {
    const isSet = await ground.setReplicas(2).then(() => true, skippedBy(t))
    if (isSet === undefined) return
    const first = await leaderAfter()
    await answersHooks('replicas')

    await ground.freezePod(NAMESPACE, first, true)
    const second = await leaderAfter(first)
    await answersHooks('leader-frozen')
    await ground.freezePod(NAMESPACE, first, false)
    await world.waitFor(podNamed(first), 'ended and started again', hasRestarted, SEEN_SECONDS)
    t.equal(holderOf(await ground.api.get(LEADER_LEASE)), second, 'who returns is not the leader')

    await ground.api.delete(podNamed(second))
    t.not(await leaderAfter(second), second)
    await answersHooks('leader-ended')

    await ground.setReplicas(1)
    await answersHooks('one-replica')
    await world.waitFor(
      LEADER_LEASE,
      'deleted with its Service',
      (lease) => lease === undefined,
      SEEN_SECONDS,
    )
  }
}

const LEADER_LEASE = {
  ...{ apiVersion: 'coordination.k8s.io/v1', kind: 'Lease' },
  ...{ namespace: NAMESPACE, name: `${RELEASE}-leader` },
}

/** Name of the pod of the leader. */
function holderOf(lease?: AnyObject): string | undefined {
  return (lease as Lease | undefined)?.spec?.holderIdentity?.split('_')[0]
}

function podNamed(name: string): Reference {
  return { apiVersion: 'v1', kind: 'Pod', namespace: NAMESPACE, name }
}

function hasRestarted(object?: AnyObject): boolean {
  const { status } = (object ?? {}) as {
    status?: { containerStatuses?: { restartCount: number }[] }
  }
  return status?.containerStatuses?.some(({ restartCount }) => restartCount > 0) === true
}

/** After the uninstall, so that helm really installs the earlier chart. */
export function showUpgrade(ground: Ground, world: ClusterWorld) {
  return async (t: Test) => {
    const commit = await ground.installPrevious().catch(skippedBy(t))
    if (commit === undefined) return
    t.comment(`from the chart of ${commit}`)
    const survivor = await collectionWithoutCluster(world, 'upgrade')
    await ground.upgradeFromPrevious()
    await world.waitFor(survivor, 'seen by the operator', isSeen, TAKEN_OVER_SECONDS)
    t.equal((await hookTokens(ground)).length, 1, 'the service made the token of the hooks')
    await removed(world, survivor)
    await ground.uninstall()
  }
}

function isPod(address: string): boolean {
  const [network = ''] = POD_RANGE.split(/0[.]0[/]/)
  return address.startsWith(network)
}

async function collectionWithoutCluster(world: ClusterWorld, purpose: string) {
  const metadata = { name: 'kept', namespace: await world.namespace(purpose) }
  const spec = { clusterRef: { name: 'missing' }, vectors: [{ size: 4, distance: 'Dot' }] }
  const made = { apiVersion: API_VERSION, kind: 'VecCollection', metadata, spec }
  await world.apply(made)
  return referenceOf(made)
}

function isSeen(object?: AnyObject): boolean {
  return phaseOf(object) !== undefined
}

async function removed(world: ClusterWorld, reference: Reference) {
  await world.client.delete(reference)
  await world.waitFor(reference, 'gone', (object) => object === undefined, SEEN_SECONDS)
}

/** Names of the tokens that the service made. */
async function hookTokens({ api }: Ground): Promise<string[]> {
  const name = `${RELEASE}-hooks`
  const secret = await api.get({ apiVersion: 'v1', kind: 'Secret', namespace: NAMESPACE, name })
  const { data = {} } = (secret ?? {}) as Partial<Secret>
  return Object.keys(data).filter((key) => key.startsWith('token.'))
}

/** A check that this cluster does not support is skipped with the reason. */
export function skippedBy(t: Test, title = 'not shown here') {
  return (error: unknown): undefined => {
    if (!(error instanceof NotSupported)) throw error
    t.pass(title, { skip: error.message })
  }
}
