/** The VecRestore hooks: requests, answers and writes. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { VecRestore } from '../../../crds/restore.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import { customize, restoreHooks } from '../../../hooks/restore/index.ts'
import { restoreRbac } from '../../../hooks/restore/job.ts'
import { context } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { bucketKeys, runningCluster } from '../backup/objects.ts'
import { leaseOf } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import {
  completedBackup,
  directRestore,
  OWN_HOLDER,
  report,
  restore,
  restoreJob,
  result,
} from './objects.ts'
import { fakePorts } from './ports.ts'

function finalizeRequest(parent: VecRestore, children: AnyObject[] = []) {
  return { ...hookRequest(parent, children), finalizing: true }
}

const rbac = restoreRbac(restore()) as AnyObject[]

const world = {
  cluster: async () => runningCluster(),
  backup: async () => completedBackup(),
  secret: async () => bucketKeys,
}

t.test('the related objects are its target and its backup, by name and namespace', async (t) => {
  const foreign = restore({ spec: { backupRef: { name: 'b', namespace: 'x' } } })
  matchWhole(t, customize(foreign), [
    { resource: 'vecclusters', namespace: 'ns', names: ['a'] },
    { resource: 'vecbackups', namespace: 'x', names: ['b'] },
  ])
  t.equal(customize(directRestore()).length, 1)
  t.strictSame(customize(restore({ status: { phase: 'Failed' } })), [], 'it has ended')
})

t.test('RBAC, then both Leases, then the Job, each observed before the next', async (t) => {
  const first = fakePorts(world)
  const hooks = restoreHooks(first.ports)
  const guard = answerValidator(hooks)
  const answer = async (children: AnyObject[], ports: typeof first) => {
    const request = hookRequest(restore(), children)
    const decision = await restoreHooks(ports.ports).sync(request, context)
    return guard(request, decision, 'sync')
  }
  t.equal((await answer([], first)).children.length, 3)
  t.strictSame(first.writes, [])
  const second = fakePorts(world)
  await answer(rbac, second)
  t.strictSame(second.writes, ['take vec-a-backup', 'take vec-a-write'])
  const held = fakePorts({
    ...world,
    lease: async (_, name) => leaseOf(name === 'vec-a-write' ? 'write' : 'backup', OWN_HOLDER, 20),
  })
  const made = await answer(rbac, held)
  matchWhole(t, made.children.at(-1), {
    kind: 'Job',
    metadata: { name: /^r-restore-[0-9a-f]{5}-1$/ },
  })
  t.match(made.status, { phase: 'Pending' })
})

t.test('the last report is read live before a Job counts as crashed', async (t) => {
  const done = report({ state: 'Done', restore: result({ completed: 2 }) })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(done) }
  const { ports } = fakePorts({ restore: async () => restore({ annotations }) })
  const job = restoreJob({ ended: ['Complete', 60] })
  const decision = await restoreHooks(ports).sync(hookRequest(restore(), [job]), context)
  t.match(decision.status, { phase: 'Completed' })
  const namesake = fakePorts({
    restore: async () => {
      const other = restore({ annotations })
      return { ...other, metadata: { ...other.metadata, uid: 'uid-x' } }
    },
  })
  const crashed = await restoreHooks(namesake.ports).sync(hookRequest(restore(), [job]), context)
  t.match(crashed.status, { phase: 'Failed', error: 'Job crashed 1 times' })
})

t.test('after a report of the Job no live read is made', async (t) => {
  const never = async () => t.fail('nothing is read')
  const { ports } = fakePorts({
    cluster: never as never,
    conflictingWork: never as never,
    lease: never as never,
  })
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report()) }
  const decision = await restoreHooks(ports).sync(
    hookRequest(restore({ annotations }), [...rbac, restoreJob()]),
    context,
  )
  t.match(decision.status, { phase: 'Downloading' })
})

t.test('a restore that is deleted with its Jobs releases both Leases immediately', async (t) => {
  const lease = async (_: string, name: string) =>
    leaseOf(name === 'vec-a-write' ? 'write' : 'backup', OWN_HOLDER, 20)
  const { ports, writes: written } = fakePorts({ lease })
  const gone = await restoreHooks(ports).finalize?.(finalizeRequest(restore()), context)
  t.equal(gone?.finalized, true)
  t.strictSame(written, ['drop vec-a-write', 'drop vec-a-backup'])
})

t.test(
  'deletion of a running restore stops its Job first, and waits for nothing else',
  async (t) => {
    const job = restoreJob()
    const running = fakePorts({ jobsOf: async () => [job] })
    const request = finalizeRequest(restore({ status: { phase: 'Restoring' } }), [...rbac, job])
    const waiting = await restoreHooks(running.ports).finalize?.(request, context)
    t.strictSame(running.writes, [`stop ${job.metadata.name}`])
    t.equal(waiting?.finalized, undefined)
    t.equal(waiting?.children.length, 4)
    const over = fakePorts({ jobsOf: async () => [restoreJob({ ended: ['Failed', 1] })] })
    const released = await restoreHooks(over.ports).finalize?.(request, context)
    t.equal(released?.finalized, true)
    t.match(released?.status, { phase: 'Restoring' })
    t.strictSame(over.writes, [])
  },
)
