/** The VecRestore room, from a request to what it answers and writes. */
import t from 'tap'
import { VecRestore } from '../../../crds/restore.ts'
import { restoreRights } from '../../../hooks/restore/children.ts'
import { customize } from '../../../hooks/restore/customize.ts'
import { restoreRoom } from '../../../hooks/restore/index.ts'
import { context } from '../../builders.ts'
import { bucketKeys, runningCluster } from '../backup/objects.ts'
import { leaseOf } from '../transfer.ts'
import { MINE, completedBackup, direct, report, restore, restoreJob, result } from './objects.ts'
import { portsOf } from './ports.ts'
import { requestOf } from '../request.ts'
import { ANNOTATIONS } from '../../../crds/names.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { guardOf } from '../../../hooks/guard.ts'

function ending(parent: VecRestore, children: AnyObject[] = []) {
  return { ...requestOf(parent, children), finalizing: true }
}

const rights = restoreRights(restore()) as AnyObject[]

const world = {
  cluster: async () => runningCluster(),
  backup: async () => completedBackup(),
  secret: async () => bucketKeys,
}

t.test('it is shown its target and its backup, each by name and namespace', async (t) => {
  const foreign = restore({ spec: { backupRef: { name: 'b', namespace: 'x' } } })
  t.match(customize(foreign), [
    { resource: 'vecclusters', namespace: 'ns', names: ['a'] },
    { resource: 'vecbackups', namespace: 'x', names: ['b'] },
  ])
  t.equal(customize(direct()).length, 1)
  t.strictSame(customize(restore({ status: { phase: 'Failed' } })), [], 'it has ended')
})

t.test('the rights, then both Leases, then the Job, each seen before the next', async (t) => {
  const first = portsOf(world)
  const room = restoreRoom(first.ports)
  const guard = guardOf(room)
  const answer = async (children: AnyObject[], ports: typeof first) => {
    const request = requestOf(restore(), children)
    const decision = await restoreRoom(ports.ports).sync(request, context)
    return guard(request, decision, 'sync')
  }
  t.equal((await answer([], first)).children.length, 3)
  t.strictSame(first.written, [])
  const second = portsOf(world)
  await answer(rights, second)
  t.strictSame(second.written, ['take vec-a-backup', 'take vec-a-write'])
  const held = portsOf({
    ...world,
    lease: async (_, name) => leaseOf(name === 'vec-a-write' ? 'write' : 'backup', MINE, 20),
  })
  const made = await answer(rights, held)
  t.match(made.children.at(-1), { kind: 'Job', spec: {} })
  t.match(made.status, { phase: 'Pending' })
})

t.test(
  'what a cache missed of the last report is read live before a Job is said to have crashed',
  async (t) => {
    const done = report({ state: 'Done', restore: result({ completed: 2 }) })
    const annotations = { [ANNOTATIONS.progress]: JSON.stringify(done) }
    const { ports } = portsOf({ restore: async () => restore({ annotations }) })
    const job = restoreJob({ ended: ['Complete', 60] })
    const decision = await restoreRoom(ports).sync(requestOf(restore(), [job]), context)
    t.match(decision.status, { phase: 'Completed' })
    const namesake = portsOf({
      restore: async () => {
        const other = restore({ annotations })
        return { ...other, metadata: { ...other.metadata, uid: 'uid-x' } }
      },
    })
    const crashed = await restoreRoom(namesake.ports).sync(requestOf(restore(), [job]), context)
    t.match(crashed.status, { phase: 'Failed', error: 'Job crashed 1 times' })
  },
)

t.test('a Job that has reported is not looked around for', async (t) => {
  const never = async () => t.fail('nothing is read')
  const { ports } = portsOf({
    cluster: never as never,
    othersAt: never as never,
    lease: never as never,
  })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report()) }
  const decision = await restoreRoom(ports).sync(
    requestOf(restore({ annotations }), [...rights, restoreJob()]),
    context,
  )
  t.match(decision.status, { phase: 'Downloading' })
})

t.test('a restore that goes with its Jobs gives both its turns back at once', async (t) => {
  const lease = async (_: string, name: string) =>
    leaseOf(name === 'vec-a-write' ? 'write' : 'backup', MINE, 20)
  const { ports, written } = portsOf({ lease })
  const gone = await restoreRoom(ports).finalize?.(ending(restore()), context)
  t.equal(gone?.finalized, true)
  t.strictSame(written, ['drop vec-a-write', 'drop vec-a-backup'])
})

t.test(
  'deleted while it runs: its Job is stopped first, and nothing else is waited for',
  async (t) => {
    const job = restoreJob()
    const running = portsOf({ jobsOf: async () => [job] })
    const request = ending(restore({ status: { phase: 'Restoring' } }), [...rights, job])
    const waiting = await restoreRoom(running.ports).finalize?.(request, context)
    t.strictSame(running.written, [`stop ${job.metadata.name}`])
    t.equal(waiting?.finalized, undefined)
    t.equal(waiting?.children.length, 4)
    const over = portsOf({ jobsOf: async () => [restoreJob({ ended: ['Failed', 1] })] })
    const released = await restoreRoom(over.ports).finalize?.(request, context)
    t.equal(released?.finalized, true)
    t.match(released?.status, { phase: 'Restoring' })
    t.strictSame(over.written, [])
  },
)
