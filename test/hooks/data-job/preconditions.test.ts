/** What a Job waits for before it can start. */
import t from 'tap'
import {
  bucketBlocker,
  secretBlocker,
  selectBlocker,
} from '../../../hooks/data-job/preconditions.ts'
import { secret } from '../../builders.ts'

t.test('a Secret serves only with a value in each of the keys', async (t) => {
  const blocker = (found: ReturnType<typeof secret> | undefined) =>
    secretBlocker({ namespace: 'ns', name: 's' }, ['one', 'other'], found)
  t.equal(blocker(secret({ one: '1', other: '2' })), undefined)
  t.strictSame(blocker(undefined), {
    reason: 'SecretNotFound',
    message: 'Secret ns/s not found',
  })
  const without = (key: string) => ({
    reason: 'InvalidSecret',
    message: `Secret ns/s has no value in key ${key}`,
  })
  t.strictSame(blocker(secret({ one: '1' })), without('other'))
  t.strictSame(blocker(secret({ one: '', other: '2' })), without('one'))
  const bare = secret({})
  delete bare.data
  t.strictSame(blocker(bare), without('one'), 'one without data has none')
})

t.test('a session token that is named must be in the Secret; by default it may be', async (t) => {
  const reference = { name: 's', accessKeyIdKey: 'id', secretAccessKeyKey: 'secret' }
  const blocker = (sessionTokenKey: string | undefined, data: Record<string, string>) => {
    const named = { ...reference, ...(sessionTokenKey !== undefined && { sessionTokenKey }) }
    const access = { credentialsSecretRef: named }
    return bucketBlocker('spec', access, 'ns', {
      ...{ secret: secret(data), account: undefined, ca: undefined },
    })
  }
  t.equal(blocker(undefined, { id: '1', secret: '2' }), undefined)
  t.equal(blocker('token', { id: '1', secret: '2', token: '3' }), undefined)
  t.strictSame(blocker('token', { id: '1', secret: '2' }), {
    reason: 'InvalidSecret',
    message: 'Secret ns/s has no value in key token',
  })
})

t.test('a copy is reported first, then a permission, then a terminal blocker', async (t) => {
  const waits = { reason: 'ClusterNotFound', message: 'not found' }
  const ends = { reason: 'BackupNotCompleted', message: 'Failed', terminal: true as const }
  const forbidden = { reason: 'RefNotPermitted', message: 'not allowed' }
  const copy = { reason: 'CopyOfEnded', message: 'a copy', terminal: true as const }
  t.equal(selectBlocker([waits, ends, forbidden, copy]), copy)
  t.equal(selectBlocker([waits, ends, undefined, forbidden]), forbidden)
  t.equal(selectBlocker([waits, ends]), ends)
  t.equal(selectBlocker([undefined, waits]), waits)
  t.equal(selectBlocker([undefined]), undefined)
})
