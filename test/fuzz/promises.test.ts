import t from 'tap'
import { VecBackup } from '../../crds/backup.ts'
import { Broken, checkNews, judged, type Answer, type HookCall } from './promises.ts'

const LATE =
  'loop: vecrestores fuzz-1/a: sync hook failed: The operation was aborted due to timeout\n'
const UNHEARD =
  'loop: vecrestores fuzz-1/a: sync hook failed: unsupported status code: 503 body: {"error":"GET /api/v1 got no answer: other side closed"}\n'
const DEFECT = '{"level":"ERROR","err":{"type":"TypeError"},"msg":"hook failed"}\n'
const CALM = '{"level":"INFO","msg":"reconciled"}\n'

for (const late of [LATE, UNHEARD]) {
  t.test('a late call on a machine that was stalled is no failure', async (t) => {
    t.equal(await checkNews([CALM, late], async () => [CALM]), 1, 'and the run counts it')
  })

  t.test('a call that is too late again, or fails then, is a failure', async (t) => {
    for (const then of [late, DEFECT]) {
      await t.rejects(
        checkNews([late], async () => [CALM, then]),
        new Broken(then),
      )
    }
  })
}

t.test('a failed hook is a failure at once, also if other calls were late', async (t) => {
  const asked = async () => t.fail('it was asked once more')
  await t.rejects(
    checkNews([LATE, DEFECT], async () => [String(await asked())]),
    new Broken(DEFECT),
  )
})

t.test('reports without a failure cause no second run', async (t) => {
  await t.resolves(checkNews([CALM], async () => [String(t.fail('it was asked once more'))]))
})

const JOB = { kind: 'Job', metadata: { name: 'run' } }
const CALL: HookCall = {
  ...{ resource: VecBackup, hook: 'sync' },
  body: { children: { 'Job.batch/v1': { run: JOB } } },
}
const answered = (children: unknown[], more: Partial<Answer> = {}): Answer => ({
  ...{ status: 200, seconds: 0.1, said: [] },
  text: JSON.stringify({ status: {}, children }),
  ...more,
})
/** The answers in turn; no more are asked for than there are. */
const asking = (...answers: Answer[]) => {
  const left = answers.values()
  return async () => {
    const { value } = left.next()
    if (value === undefined) throw new Error('it was asked once more')
    return value
  }
}

t.test('an answer that is in time is asked for once', async (t) => {
  const { decision, isAskedAgain } = await judged(CALL, asking(answered([JOB])))
  t.strictSame(decision?.children, [JOB])
  t.equal(isAskedAgain, false)
})

t.test('a late answer that is right is asked for once more, and counted', async (t) => {
  const late = answered([JOB], { seconds: 6 })
  const { answer, isAskedAgain } = await judged(CALL, asking(late, answered([JOB])))
  t.strictSame([answer, isAskedAgain], [late, true])
})

for (const [what, late, words] of [
  ['that loses a child', answered([], { seconds: 6 }), 'sync loses Job/run'],
  ['with an error', answered([], { seconds: 6, status: 500, text: 'failed' }), 'answered 500'],
  ['that used the CPU all the time', answered([JOB], { seconds: 6, cpuSeconds: 6 }), '6 s of the'],
] as const) {
  t.test(`a late answer ${what} is Broken, whatever the next one is`, async (t) => {
    await t.rejects(judged(CALL, asking(late, answered([JOB]))), { message: new RegExp(words) })
  })
}

t.test('an answer that is late twice, or wrong then, is Broken', async (t) => {
  const late = answered([JOB], { seconds: 6 })
  await t.rejects(judged(CALL, asking(late, late)), new Broken('sync took 6 and 6 s'))
  await t.rejects(judged(CALL, asking(late, answered([]))), new Broken('sync loses Job/run'))
})
