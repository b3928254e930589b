/** The bytes of a node's snapshot are those that the engine announced, or the backup fails. */
import { createHash } from 'node:crypto'
import t from 'tap'
import { verifiedBytes } from '../../../../jobs/backup/nodes/node-snapshot.ts'

const CONTENT = Buffer.from('0123456789')
const SHA256 = createHash('sha256').update(CONTENT).digest('hex')

interface Announced {
  size?: number
  checksum?: string | null
}

/** What arrives in chunks of four bytes, until the failure if there is one. */
async function receive({ size = 10, checksum = SHA256 }: Announced, failure?: Error) {
  const bytes = (async function* () {
    for (let at = 0; at < CONTENT.length; at += 4) yield CONTENT.subarray(at, at + 4)
    if (failure !== undefined) throw failure
  })()
  const digest = { sha256: '' }
  const passed: Buffer[] = []
  const counted: number[] = []
  const snapshot = { name: 's', creation_time: null, size, checksum }
  const onBytes = (count: number) => counted.push(count)
  const outcome = (async () => {
    for await (const chunk of verifiedBytes(bytes, { snapshot, ordinal: 1, digest, onBytes })) {
      passed.push(Buffer.from(chunk))
    }
  })()
  const error = await outcome.then(
    () => undefined,
    (reason: unknown) => (reason as Error).message,
  )
  return { error, passed: Buffer.concat(passed).toString(), counted, ...digest }
}

t.test('announced bytes pass, and are counted and digested', async (t) => {
  const whole = { error: undefined, passed: '0123456789', counted: [4, 4, 2], sha256: SHA256 }
  t.strictSame(await receive({}), whole)
  t.strictSame(await receive({ checksum: SHA256.toUpperCase() }), whole)
  t.strictSame(await receive({ checksum: null }), whole, 'an engine without checksums')
})

t.test('fewer bytes than announced fail, with both numbers', async (t) => {
  t.match(await receive({ size: 11 }), {
    error: 'snapshot s of node 1: received 10 of 11 bytes',
    sha256: '',
  })
})

t.test('more bytes than announced fail, and the surplus is not passed on', async (t) => {
  t.strictSame(await receive({ size: 9 }), {
    error: 'snapshot s of node 1: received more of 9 bytes',
    passed: '01234567',
    counted: [4, 4],
    sha256: '',
  })
})

t.test('other bytes than announced fail, with both checksums', async (t) => {
  const { error } = await receive({ checksum: 'f'.repeat(64) })
  t.equal(
    error,
    `snapshot s of node 1 has the SHA-256 ${SHA256}, but the engine reported ${'f'.repeat(64)}`,
  )
})

t.test('a stream that breaks off fails as an error of the engine', async (t) => {
  const { error } = await receive({}, new Error('socket closed'))
  t.equal(error, 'snapshot s of node 1 broke off: socket closed')
})
