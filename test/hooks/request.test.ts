import t from 'tap'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { refreshProgress, type ProgressOwner, type ObservedJobs } from '../../hooks/request.ts'
import { progressReport, dataJobOf } from './data-job/fixtures.ts'

const transfer = { kind: 'backup', name: 'b', uid: 'uid-b', plan: 'desired' }
const job = dataJobOf(transfer)
const named = { metadata: { namespace: 'ns', name: 'b', uid: 'uid-b' } }

function live(uid: string, said?: object): () => Promise<ProgressOwner> {
  const annotations = said === undefined ? {} : { [ANNOTATIONS.progress]: JSON.stringify(said) }
  return async () => ({ metadata: { uid, annotations } })
}

t.test(
  'the newest report is that of the resource itself, not of another resource of that name',
  async (t) => {
    const report = progressReport(transfer, { state: 'Done' })
    const older = progressReport(transfer)
    const read = async (from: () => Promise<ProgressOwner>) => {
      const observed: ObservedJobs = { children: [], jobs: [job], progress: older }
      await refreshProgress(observed, named, from)
      return observed.progress
    }
    t.strictSame(await read(live('uid-b', report)), report)
    t.strictSame(await read(live('uid-of-another', report)), older)
    t.strictSame(await read(live('uid-b')), older, 'there is no report')
  },
)

t.test('the last report is kept after the resource is deleted', async (t) => {
  const observed: ObservedJobs = { children: [], jobs: [], progress: progressReport(transfer) }
  await refreshProgress(observed, named, async () => undefined)
  t.strictSame(observed.progress, progressReport(transfer))
})
