/** Which VecRestores a purge waits for: a restore without permission to read the backup does not delay it. */
import t from 'tap'
import type { Job } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS, LABELS } from '../../../crds/contract/names.ts'
import type { BackupReader } from '../../../hooks/backup/observe.ts'
import { activeReader } from '../../../hooks/backup/finalize.ts'
import { signJob } from '../../../hooks/request.ts'
import { ago, context, settings } from '../../builders.ts'
import { backup } from './objects.ts'

const DELETED = 3600

interface Case {
  by?: BackupReader['by']
  namespace?: string
  /** Namespaces that the backup allows. */
  allowed?: string
  /** Whether the operator created the Job. */
  isOurs?: boolean
  /** Whether the status of the restore has an outcome. */
  isFinished?: boolean
  /** Seconds before now. */
  created?: number
  deleted?: number
}

async function waitsFor({
  by = 'name',
  namespace = 'far',
  allowed = '',
  isOurs = true,
  created = 2 * DELETED,
  deleted = DELETED,
  isFinished = false,
}: Case): Promise<string | undefined> {
  const restore: BackupReader = {
    namespace,
    name: 'r',
    uid: 'uid-r',
    by,
    ...(isFinished && { isFinished: true as const }),
  }
  const identity = { namespace, name: 'restore-run-x-1', parentUid: restore.uid }
  const job: Job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: identity.name,
      namespace,
      uid: 'uid-job',
      creationTimestamp: ago(created),
      labels: { [LABELS.parent]: restore.uid },
      annotations: isOurs ? { [ANNOTATIONS.signature]: signJob(identity, settings.jobKeys) } : {},
    },
  }
  const ports = { restoresReading: async () => [restore], jobsOf: async () => [job] }
  const parent = backup({
    deletionTimestamp: ago(deleted),
    annotations: { [ANNOTATIONS.allowedNamespaces]: allowed },
  })
  return activeReader(parent, ports, context)
}

const WAITS = 'VecRestore far/r'

t.test('a restore that names the backup is waited for where the backup allows it', async (t) => {
  t.equal(await waitsFor({ namespace: 'ns', isOurs: false }), 'VecRestore ns/r')
  t.equal(await waitsFor({ allowed: 'far', isOurs: false }), WAITS)
  t.equal(await waitsFor({ isOurs: false }), undefined, 'a Job that another program labelled')
  t.equal(await waitsFor({}), WAITS, 'allowed when its Job was made')
})

t.test('a restore that has ended is waited for only where the backup allows it', async (t) => {
  for (const by of ['name', 'location'] as const) {
    t.equal(await waitsFor({ by, isFinished: true }), undefined, 'a copy of its Job')
    t.equal(await waitsFor({ by, isFinished: true, allowed: 'far' }), WAITS)
  }
})

t.test(
  'a restore by location in another namespace must have started before the deletion',
  async (t) => {
    const by = 'location'
    t.equal(await waitsFor({ by }), WAITS)
    t.equal(await waitsFor({ by, created: DELETED }), WAITS)
    t.equal(await waitsFor({ by, created: DELETED - 1 }), undefined)
    t.equal(await waitsFor({ by, created: DELETED - 1, allowed: 'far' }), WAITS)
    t.equal(await waitsFor({ by, isOurs: false }), undefined)
    t.equal(await waitsFor({ by, created: 9, namespace: 'ns' }), 'VecRestore ns/r')
  },
)

t.test('and it is waited for six hours', async (t) => {
  const [by, created] = ['location', 90_000] as const
  t.equal(await waitsFor({ by, created, deleted: 21_599 }), WAITS)
  t.equal(await waitsFor({ by, created, deleted: 21_600 }), undefined)
  t.equal(await waitsFor({ created, deleted: 86_400 }), WAITS, 'by name as long as it runs')
})

t.test('a namespace that cannot be read may have a restore', async (t) => {
  const unknown: BackupReader = { namespace: 'far', name: '', uid: '', by: 'unknown' }
  const ports = {
    restoresReading: async () => [unknown],
    jobsOf: async () => Promise.reject(new Error('its Jobs are not listed')),
  }
  const readerOf = (deleted: number, allowed = '') =>
    activeReader(
      backup({
        deletionTimestamp: ago(deleted),
        annotations: { [ANNOTATIONS.allowedNamespaces]: allowed },
      }),
      ports,
      context,
    )
  const waits =
    'a VecRestore of namespace far, which cannot be read: run helm upgrade, or remove it from operator.namespaces'
  t.equal(await readerOf(90_000, 'far'), waits)
  t.equal(await readerOf(21_599), waits, 'by location it needs no permission')
  t.equal(await readerOf(21_600), undefined)
})
