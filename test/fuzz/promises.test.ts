import t from 'tap'
import { Broken, checkNews } from './promises.ts'

const LATE =
  'loop: vecrestores fuzz-1/a: sync hook failed: The operation was aborted due to timeout\n'
const UNHEARD =
  'loop: vecrestores fuzz-1/a: sync hook failed: unsupported status code: 503 body: {"error":"GET /api/v1 got no answer: other side closed"}\n'
const DEFECT = '{"level":"ERROR","err":{"type":"TypeError"},"msg":"hook failed"}\n'
const CALM = '{"level":"INFO","msg":"reconciled"}\n'

for (const late of [LATE, UNHEARD]) {
  t.test('a late call on a machine that was stalled is no failure', async (t) => {
    await t.resolves(checkNews([CALM, late], async () => [CALM]))
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
