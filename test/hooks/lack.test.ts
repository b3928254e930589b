/** What a Job waits for before it can start. */
import t from 'tap'
import { secretLack } from '../../hooks/lack.ts'
import { secret } from '../builders.ts'

t.test('a Secret serves only with a value in each of the keys', async (t) => {
  const lack = (found: ReturnType<typeof secret> | undefined) =>
    secretLack({ namespace: 'ns', name: 's' }, ['one', 'other'], found)
  t.equal(lack(secret({ one: '1', other: '2' })), undefined)
  t.strictSame(lack(undefined), {
    reason: 'SecretNotFound',
    message: 'Secret ns/s not found',
  })
  const without = (key: string) => ({
    reason: 'SecretNotUsable',
    message: `Secret ns/s has no value in key ${key}`,
  })
  t.strictSame(lack(secret({ one: '1' })), without('other'))
  t.strictSame(lack(secret({ one: '', other: '2' })), without('one'))
  const bare = secret({})
  delete bare.data
  t.strictSame(lack(bare), without('one'), 'one without data has none')
})
