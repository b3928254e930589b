import t from 'tap'
import { ANNOTATIONS } from '../../crds/names.ts'
import { readReport, type Reported, type ShownJobs } from '../../hooks/observations.ts'
import { reportOf, transferJobOf } from './transfer.ts'

const transfer = { kind: 'backup', uid: 'uid-b', plan: 'wanted' }
const job = transferJobOf(transfer)
const named = { metadata: { namespace: 'ns', name: 'b', uid: 'uid-b' } }

function live(uid: string, said?: object): () => Promise<Reported> {
  const annotations = said === undefined ? {} : { [ANNOTATIONS.progress]: JSON.stringify(said) }
  return async () => ({ metadata: { uid, annotations } })
}

t.test('the newest report is that of the resource itself, not of a namesake', async (t) => {
  const report = reportOf(transfer, { state: 'Done' })
  const older = reportOf(transfer)
  const read = async (from: () => Promise<Reported>) => {
    const shown: ShownJobs = { children: [], jobs: [job], progress: older }
    await readReport(shown, named, from)
    return shown.progress
  }
  t.strictSame(await read(live('uid-b', report)), report)
  t.strictSame(await read(live('uid-of-another', report)), older)
  t.strictSame(await read(live('uid-b')), older, 'nothing is told there')
})

t.test('what was told is not forgotten because the resource is gone', async (t) => {
  const shown: ShownJobs = { children: [], jobs: [], progress: reportOf(transfer) }
  await readReport(shown, named, async () => undefined)
  t.strictSame(shown.progress, reportOf(transfer))
})
