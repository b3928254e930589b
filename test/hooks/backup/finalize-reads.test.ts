/** What is read at the end of a VecBackup, and what is not even looked at. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/names.ts'
import { observeEnd } from '../../../hooks/backup/finalize.ts'
import type { Purge } from '../../../hooks/backup/purge.ts'
import { Passes } from '../../../hooks/pass.ts'
import { ago, context } from '../../builders.ts'
import { requestOf } from '../request.ts'
import { noting } from '../transfer.ts'
import { backup, bucketKeys } from './objects.ts'
import { portsOf } from './ports.ts'

const deletionTimestamp = ago(5)

async function askedFor(parent: ReturnType<typeof backup>): Promise<string[]> {
  const { ports, asked } = noting(portsOf({ secret: async () => bucketKeys }).ports)
  await observeEnd(requestOf(parent), { ports, purges: new Passes<Purge>(0) }, context)
  return asked.filter((call) => !/^(jobsOf|namespaceEnds) /.test(call))
}

t.test('a backup that was started once is not read again at its end', async (t) => {
  const status = { phase: 'Completed', startTime: ago(900) } as const
  const asked = await askedFor(backup({ deletionTimestamp, status }))
  t.strictSame(asked, ['restoresOf ns/b', 'secret ns/s3', 'purge ns/b'])
})

t.test('where objects stay, neither restores nor credentials are looked for', async (t) => {
  const annotations = { [ANNOTATIONS.retainObjects]: 'true' }
  const status = { phase: 'Completed', startTime: ago(900) } as const
  t.strictSame(await askedFor(backup({ deletionTimestamp, status, annotations })), [])
  const never = backup({ deletionTimestamp })
  t.strictSame(await askedFor(never), ['backup ns/b'], 'nor where there are none')
})
