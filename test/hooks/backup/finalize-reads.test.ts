/** Reads during the deletion of a VecBackup. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { observeDeletion } from '../../../hooks/backup/finalize.ts'
import type { Purge } from '../../../hooks/backup/observe.ts'
import { BackgroundTasks } from '../../../hooks/background-task.ts'
import { ago, context } from '../../builders.ts'
import { hookRequest } from '../request.ts'
import { recordCalls } from '../data-job/fixtures.ts'
import { backup, bucketKeys } from './objects.ts'
import { fakePorts } from './ports.ts'

const deletionTimestamp = ago(5)

async function askedFor(parent: ReturnType<typeof backup>): Promise<string[]> {
  const { ports, calls: asked } = recordCalls(fakePorts({ secret: async () => bucketKeys }).ports)
  await observeDeletion(
    hookRequest(parent),
    { ports, purges: new BackgroundTasks<Purge>(0) },
    context,
  )
  return asked.filter((call) => !/^(jobsOf|isNamespaceTerminating) /.test(call))
}

t.test('a started backup is not read again during its deletion', async (t) => {
  const status = { phase: 'Completed', startTime: ago(900) } as const
  const asked = await askedFor(backup({ deletionTimestamp, status }))
  t.strictSame(asked, ['restoresReading ns/b', 'secret ns/s3', 'purge ns/b'])
})

t.test('when the objects stay, neither restores nor credentials are read', async (t) => {
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const status = { phase: 'Completed', startTime: ago(900) } as const
  t.strictSame(await askedFor(backup({ deletionTimestamp, status, annotations })), [])
  const never = backup({ deletionTimestamp })
  t.strictSame(await askedFor(never), ['backup ns/b'], 'the same without objects')
})
