import t from 'tap'
import { JobProgress } from '../../jobs/progress.ts'
import { withHint } from '../../jobs/retry.ts'

const LIMIT = 512

function recorded(error: string): string {
  const reporter = { progress: async () => undefined, checkpoint: async () => undefined }
  return new JobProgress({
    ...{ reporter, statusOrder: [] },
    toReport: () => ({ message: '', fields: {} }),
  }).recordError(error)
}

t.test('an error that fits is reported as it is', async (t) => {
  for (const error of ['', 'no space left', 'x'.repeat(LIMIT)]) t.equal(recorded(error), error)
})

t.test('a longer error is reported without its middle: what failed, and the hint', async (t) => {
  const path = '/qdrant/storage/tmp/a-collection-with-a-long-name'.repeat(10)
  const error = withHint(`recovery of docs answered 500: IO Error: failed to unpack \`${path}\``)
  const short = recorded(error)
  t.equal(short.length, LIMIT)
  t.ok(short.startsWith('recovery of docs answered 500: '))
  t.ok(short.endsWith('` (is the data volume of that node full?)'))
  const [start = '', end = ''] = short.split(' ... ')
  t.ok(error.startsWith(start) && error.endsWith(end))
})
