/** What is read before a decision about a VecRestore, and when. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { desiredPlan } from '../../../hooks/restore/job.ts'
import { observe, type RestorePorts } from '../../../hooks/restore/observe.ts'
import { context, statefulSet } from '../../builders.ts'
import { bucketKeys, keySecret, runningCluster } from '../backup/objects.ts'
import { recordCalls } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import { completedBackup, directRestore, report, restore, restoreJob } from './objects.ts'
import { fakePorts } from './ports.ts'

const KEYED = { spec: { apiKey: { autoGenerate: true, jwtRbac: false } } }

const whole: Partial<RestorePorts> = {
  cluster: async () => runningCluster(),
  statefulSet: async () => statefulSet(3),
  backup: async () => completedBackup(),
  secret: async () => bucketKeys,
}

type Parent = ReturnType<typeof restore>

async function observed(
  parent: Parent,
  { jobs = [], answers = whole, related = [] }: { jobs?: object[]; answers?: Partial<RestorePorts>; related?: object[] } = {}, // prettier-ignore
) {
  const { ports, calls: asked } = recordCalls(fakePorts(answers).ports)
  return { found: await observe(hookRequest(parent, jobs, related), ports, context), asked }
}

/** A restore whose Job has this report. */
function reporting(state: 'Started' | 'Done', parts: Parameters<typeof restore>[0] = {}): Parent {
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report({ state })) }
  return restore({ ...parts, annotations })
}

t.test('everything that can block a Job is read live when a Job may be due', async (t) => {
  const { found, asked } = await observed(reporting('Started'))
  t.strictSame(asked, [
    ...['restore ns/r', 'cluster ns/a', 'statefulSet ns/vec-a', 'backup ns/b', 'secret ns/s3'],
    ...['lease ns/vec-a-write', 'lease ns/vec-a-backup', 'conflictingWork ns/a', 'jobsOf ns/uid-r'],
  ])
  t.strictSame(found, {
    restore: reporting('Started'),
    ...{ children: [], jobs: [], progress: report() },
    ...{ cluster: runningCluster(), statefulSet: statefulSet(3), backup: completedBackup() },
    secrets: { bucket: bucketKeys },
    leases: { write: { kind: 'write' }, backup: { kind: 'backup' } },
    ...{ conflictingWork: [], liveJobs: [] },
  })
})

t.test('a restore that has ended after what the cache shows stays so', async (t) => {
  // Its backup had failed and was recreated.
  const ended = restore({ status: { phase: 'Failed', error: 'backup is Failed' } })
  const { found, asked } = await observed(restore(), {
    answers: { ...whole, restore: async () => ended },
  })
  t.strictSame(asked, ['restore ns/r'])
  t.strictSame(found, { restore: ended, children: [], jobs: [], secrets: {} })
  const namesake = { ...ended, metadata: { ...ended.metadata, uid: 'another' } }
  const other = await observed(restore(), { answers: { ...whole, restore: async () => namesake } })
  t.strictSame(other.found.restore, restore(), 'the end of another is not its own')
})

t.test('target and backup are read in their own namespaces, and the key next to its', async (t) => {
  const spec = {
    backupRef: { name: 'b', namespace: 'archive' },
    targetClusterRef: { name: 'a', namespace: 'search' },
  }
  const cluster = runningCluster({ ...KEYED, namespace: 'search' })
  const { asked } = await observed(restore({ spec }), {
    answers: { ...whole, cluster: async () => cluster },
  })
  t.strictSame(asked, [
    ...['restore ns/r', 'cluster search/a', 'statefulSet search/vec-a', 'backup archive/b'],
    ...['secret archive/s3', 'secret search/vec-a-apikey'],
    ...['lease search/vec-a-write', 'lease search/vec-a-backup'],
    ...['conflictingWork search/a', 'jobsOf ns/uid-r'],
  ])
})

t.test('a missing backup or cluster is undefined, and nothing more is read', async (t) => {
  const { found, asked } = await observed(restore(), { answers: {} })
  t.strictSame(asked, ['restore ns/r', 'cluster ns/a', 'statefulSet ns/vec-a', 'backup ns/b'])
  t.strictSame(found, { restore: restore(), children: [], jobs: [], secrets: {} })
  const named = await observed(directRestore())
  t.notOk(
    named.asked.some((call) => call.startsWith('backup')),
    'a bucket that is named directly',
  )
})

t.test('a cluster that was shown and is gone has no Leases', async (t) => {
  const related = [runningCluster()]
  const leases = (asked: string[]) => asked.filter((call) => call.startsWith('lease'))
  const answers = { ...whole, cluster: async () => undefined }
  const { found, asked } = await observed(restore(), { answers, related })
  t.equal(found.cluster, undefined)
  t.equal(found.leases, undefined)
  t.strictSame(leases(asked), [])
  const there = await observed(restore(), { answers: whole, related })
  t.strictSame(leases(there.asked), ['lease ns/vec-a-write', 'lease ns/vec-a-backup'])
})

t.test('while a Job starts its Secret copies are read', async (t) => {
  const cluster = runningCluster({ ...KEYED, namespace: 'search' })
  const parent = restore({ spec: { targetClusterRef: { name: 'a', namespace: 'search' } } })
  const plan = desiredPlan(parent, cluster, { backup: completedBackup() })?.hash ?? ''
  const answers = { ...whole, cluster: async () => cluster, secret: async () => keySecret() }
  const { found, asked } = await observed(parent, { jobs: [restoreJob({ plan })], answers })
  const { name } = restoreJob().metadata
  t.strictSame(
    asked.filter((call) => call.startsWith('secretCopy')),
    [`secretCopy ns/${name}-engine`, `secretCopy ns/${name}-tls`],
  )
  t.strictSame(found.secretCopies, {})
  t.match(found.secrets, { engine: keySecret() })
})

t.test(
  'after the first report of a Job only the sources of its Secret copies are read',
  async (t) => {
    const cluster = runningCluster({ ...KEYED, namespace: 'search' })
    const spec = { targetClusterRef: { name: 'a', namespace: 'search' } }
    const related = [cluster, completedBackup()]
    const answers = { ...whole, secret: async () => keySecret() }
    const jobs = [restoreJob()]
    const { found, asked } = await observed(reporting('Started', { spec }), {
      jobs,
      answers,
      related,
    })
    t.ok(
      asked.every((call) => /^(secretCopy|secret) /.test(call)),
      asked.join(),
    )
    t.strictSame(found.cluster, cluster)
    t.strictSame(found.backup, completedBackup())
    t.match(found.secrets, { engine: keySecret() })
    const near = await observed(reporting('Started'), { jobs, answers, related })
    t.strictSame(near.asked, [], 'without copies nothing')
  },
)

t.test('for a finished restore only the related objects of the request are used', async (t) => {
  const parent = restore({ status: { phase: 'Completed' } })
  const related = [runningCluster(), completedBackup()]
  const jobs = [restoreJob({ ended: ['Complete', 60] })]
  const { found } = await observed(parent, { jobs, related })
  t.strictSame(found, {
    ...{ restore: parent, children: jobs, jobs },
    ...{ cluster: runningCluster(), backup: completedBackup(), secrets: {} },
  })
})

t.test('the restore itself is read live only where its Job ended without a report', async (t) => {
  const crashed = restoreJob({ ended: ['Failed', 60] })
  const asked = async (parent: Parent, jobs: object[]) => (await observed(parent, { jobs })).asked
  t.strictSame(await asked(restore(), [crashed]), ['restore ns/r'], 'and nothing else')
  t.notOk((await asked(restore(), [restoreJob()])).includes('restore ns/r'))
  t.strictSame(await asked(reporting('Done'), [crashed]), [])
  t.strictSame(await asked(restore({ status: { phase: 'Completed' } }), []), [])
  t.strictSame(await asked(restore({ status: { phase: 'Failed' } }), [crashed]), [])
})
