/**
 * Other resources that work on the same cluster: they take the Leases by the same rules, and then their
 * Jobs run.
 */
import { LABELS, leaseName } from '../../crds/contract/names.ts'
import type { Lease, LeaseHolder } from '../../crds/kubernetes.ts'
import { isUnfinished } from '../../hooks/request.ts'
import { holderOf, type LeaseKind, type ObservedLease } from '../../hooks/lease.ts'
import { claim } from '../../hooks/lease-claim.ts'
import type { Step } from './explore.ts'
import { phaseIn } from './promises.ts'
import {
  at,
  create,
  edit,
  jobs,
  keyOf,
  NAMESPACE,
  type Small,
  type SmallWorld,
} from './small-world.ts'
import { striking } from './steps.ts'

const CLUSTER = 'VecCluster/a'
const SECOND_LOOK_MS = 15_000

/** Another resource that takes these Leases: `starts` in `left` is how many may begin. */
export function anotherWith(
  kinds: LeaseKind[],
  kind: 'VecBackup' | 'VecRestore',
): (world: SmallWorld) => Step<SmallWorld>[] {
  const holder: LeaseHolder = { kind, namespace: NAMESPACE, name: 'other', uid: 'other' }
  return (world) => [...takes(world, kinds, holder), ...works(world, kinds, holder), ...ends(world)]
}

/** A migration takes no Lease: it begins while no resource holds the Lease of the writers. */
export function anotherMigration(world: SmallWorld): Step<SmallWorld>[] {
  if (isHeld(world, 'write')) return []
  return [
    ...striking(world, 'starts', {
      name: 'another migration begins',
      take: async (to) => void create(to, jobOf('other', 'migration')),
    }),
    ...ends(world),
  ]
}

/** Unfinished Jobs that hold no Lease. */
export function withoutLease(world: SmallWorld): string[] {
  return jobs(world)
    .filter((job) => isUnfinished(job) && job.metadata.labels?.[LABELS.verb] === 'migration')
    .map(({ metadata }) => metadata.name)
}

function takes(world: SmallWorld, kinds: LeaseKind[], holder: LeaseHolder): Step<SmallWorld>[] {
  const isReady = phaseIn(world, CLUSTER) === 'Running'
  const isBusy = kinds.some((kind) => isHeld(world, kind))
  if (!isReady || isBusy) return []
  const take = async (to: SmallWorld) => {
    const claimed = claimIn(to, kinds, holder)
    if (claimed?.state !== 'taking') return
    for (const { lease } of claimed.writes) {
      const desired = lease as unknown as Small
      if (!create(to, desired))
        edit(to, keyOf(lease), (found) => ({ ...found, spec: desired.spec }))
    }
  }
  return striking(world, 'starts', { name: `another ${holder.kind} takes the Lease`, take })
}

function works(world: SmallWorld, kinds: LeaseKind[], holder: LeaseHolder): Step<SmallWorld>[] {
  if (claimIn(world, kinds, holder)?.state !== 'held') return []
  const { acquireTime = '' } = seenLease(world, 'backup').lease?.spec ?? {}
  const isEarly = world.now - Date.parse(acquireTime) < SECOND_LOOK_MS
  const isHelmAtWork = jobs(world).some(
    (job) => isUnfinished(job) && job.metadata.labels?.[LABELS.component] === 'helm',
  )
  if (holder.kind === 'VecRestore' && (isEarly || isHelmAtWork)) return []
  const take = async (to: SmallWorld) => void create(to, jobOf(holder.uid, 'run'))
  return [{ name: `another ${holder.kind} starts its Job`, take }]
}

function ends(world: SmallWorld): Step<SmallWorld>[] {
  return jobs(world)
    .filter((job) => isUnfinished(job) && job.metadata.labels?.[LABELS.parent] === 'other')
    .map(({ metadata: { name } }) => ({
      name: `${name} ends`,
      take: async (to: SmallWorld) =>
        edit(to, `Job/${name}`, (found) => ({
          ...found,
          status: {
            conditions: [{ type: 'Complete', status: 'True', lastTransitionTime: at(to) }],
          },
        })),
    }))
}

function jobOf(parent: string, verb: string): Small {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: `other-${verb}`, labels: { [LABELS.parent]: parent, [LABELS.verb]: verb } },
  }
}

function claimIn(world: SmallWorld, kinds: LeaseKind[], holder: LeaseHolder) {
  const cluster = world.live[CLUSTER]
  if (cluster === undefined) return undefined
  const { name, uid = '' } = cluster.metadata
  const now = new Date(world.now)
  const seen = kinds.map((kind) => seenLease(world, kind))
  return claim(seen, holder, { cluster: { metadata: { namespace: NAMESPACE, name, uid } }, now })
}

function isHeld(world: SmallWorld, kind: LeaseKind): boolean {
  return holderOf(seenLease(world, kind), new Date(world.now)) !== undefined
}

function seenLease(world: SmallWorld, kind: LeaseKind): ObservedLease {
  const lease = world.live[`Lease/${leaseName('a', kind)}`] as unknown as Lease | undefined
  if (lease === undefined) return { kind }
  const uid = lease.spec?.holderIdentity?.split('/').at(-1)
  const of = jobs(world).filter(({ metadata }) => metadata.labels?.[LABELS.parent] === uid)
  return { kind, lease, jobs: of }
}

/** A restore that reads a backup: it begins once the backup is complete. */
export function reader(world: SmallWorld, backup: string): Step<SmallWorld>[] {
  const found = world.live[backup]
  if (found === undefined) return []
  const isWhole = phaseIn(world, backup) === 'Completed'
  const isGoing = found.metadata.deletionTimestamp !== undefined
  const take = async (to: SmallWorld) => {
    create(to, {
      apiVersion: 'vec-operator.dev/v1alpha1',
      kind: 'VecRestore',
      metadata: { name: 'reader', uid: 'other' },
      spec: { backupRef: { name: found.metadata.name } },
    })
    create(to, jobOf('other', 'run'))
  }
  const begins = striking(world, 'starts', { name: 'a restore reads it', take })
  return [...(isWhole && !isGoing ? begins : []), ...ends(world)]
}
