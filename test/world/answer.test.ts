/** How strictly the loop reads the answer of a hook. */
import t from 'tap'
import { readAnswer, SyncAnswer } from './loop/answer.ts'

t.test(
  'a value that is spelled like a field of its object is no field written twice',
  async (t) => {
    const status = { secretRef: { name: 'key', key: 'token' }, phase: 'phase' }
    const text = JSON.stringify({ status, children: [] })
    t.strictSame(readAnswer(text, SyncAnswer, true), { status, children: [] })
  },
)

t.test('a field that is written twice is refused, whatever its values are', async (t) => {
  const text = '{"status":{"a":{"b":"b","c":1,"b" :"x"}},"children":[]}'
  t.throws(() => readAnswer(text, SyncAnswer, true), /duplicate field "status\/a\/b"/)
  t.match(readAnswer(text, SyncAnswer, false), { status: { a: { b: 'x' } } })
})
