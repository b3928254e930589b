/** What a tenant may have the service call: no loopback, no link-local address, and not the service itself. */
import type { LookupAddress } from 'node:dns'
import { networkInterfaces } from 'node:os'
import t from 'tap'
import { AddressGuard, type AddressRules } from '../../../../jobs/clients/http/address-guard.ts'
import { Bucket } from '../../../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { instantClock } from '../../job-world.ts'

const log = jobLog({}, { write: () => undefined })

function guard(rules: Partial<AddressRules> = {}, own: string[] = ['10.1.2.3']): AddressGuard {
  return new AddressGuard({ allowHttp: true, denied: [], ...rules }, () => own)
}

const REFUSED: string[] = [
  'http://127.0.0.1:9000',
  'http://127.1',
  'http://2130706433',
  'http://0x7f.0.0.1',
  'http://0',
  'http://169.254.169.254/latest/meta-data',
  'http://[::1]:8080',
  'http://[::ffff:127.0.0.1]',
  'http://[::ffff:a9fe:a9fe]',
  'http://[fe80::1]',
  'http://[64:ff9b::7f00:1]',
  'http://[64:ff9b:1::7f00:1]',
  'http://[::127.0.0.1]',
  'http://[::]',
  'http://100.100.100.200/latest/meta-data',
  'http://168.63.129.16',
  'http://[fd00:ec2::254]',
  'http://[fd20:ce::254]',
  'http://[fd00:c1::a9fe:a9fe]',
  'https://10.1.2.3:8080',
  'https://10.96.0.1',
]

for (const endpoint of REFUSED) {
  t.test(`${endpoint} is not called`, async (t) => {
    t.throws(() => guard({ denied: ['10.96.0.0/16'] }).check(endpoint), {
      code: 'StorageError',
      reason: 'AddressRefused',
    })
  })
}

t.test('other addresses and names are, http only where that is allowed', async (t) => {
  for (const endpoint of ['http://10.1.2.4:9000', 'https://s3.example.com', 'http://[fd00::1]']) {
    guard().check(endpoint)
  }
  guard({ allowHttp: false }).check('https://s3.example.com')
  t.throws(() => guard({ allowHttp: false }).check('http://s3.example.com'), {
    message: /not https/,
  })
})

t.test('a network that does not read is rejected when the service starts', async (t) => {
  for (const network of ['10.0.0.0', 'all', 'all/16', '10.0.0.0/x', '10.0.0.0/33', '::/129']) {
    t.throws(() => guard({ denied: [network] }), {
      message: `"${network}" is not a network such as 10.96.0.0/16`,
    })
  }
})

t.test('a network may be a single address', async (t) => {
  for (const network of ['10.0.0.7/32', 'fd00::7/128']) {
    const address = network.split('/')[0] ?? ''
    const host = address.includes(':') ? `[${address}]` : address
    t.throws(() => guard({ denied: [network] }).check(`http://${host}:9000`), {
      message: /is not called from here/,
    })
  }
})

t.test('a name is judged by every address it has when the connection is created', async (t) => {
  const resolved = (name: string, all: boolean) =>
    new Promise<string | LookupAddress[]>((resolve, reject) => {
      guard().lookup(name, { all }, (error, address) => (error ? reject(error) : resolve(address)))
    })
  await t.rejects(resolved('localhost', true), { message: /^localhost has the address / })
  await t.rejects(resolved('localhost', false), { message: /^localhost has the address / })
  t.equal(await resolved('10.1.2.4', false), '10.1.2.4')
  t.strictSame(await resolved('10.1.2.4', true), [{ address: '10.1.2.4', family: 4 }])
})

t.test('a name that does not resolve is an error of its own', async (t) => {
  const error = await new Promise<NodeJS.ErrnoException | null>((resolve) =>
    guard().lookup('no-such-host.invalid', { all: true }, resolve),
  )
  t.match(error, { code: /^(ENOTFOUND|EAI_AGAIN)$/ })
})

t.test('the addresses of this process are not called, also if no rule names them', async (t) => {
  const own = Object.values(networkInterfaces()).flatMap((all = []) => all)
  t.not(own.length, 0)
  const open = new AddressGuard({ allowHttp: true, denied: [] })
  for (const { address, family } of own) {
    const host = family === 'IPv6' ? `[${address.split('%')[0]}]` : address
    t.throws(
      () => open.check(`http://${host}:9000`),
      { code: 'StorageError', reason: 'AddressRefused' },
      address,
    )
  }
})

t.test('a bucket at such a name or address is rejected, once, with the reason', async (t) => {
  for (const host of ['localhost', '127.0.0.1', '[::1]']) {
    let calls = 0
    const bucket = new Bucket({
      target: {
        ...{ bucket: 'b', region: 'us-east-1', forcePathStyle: true },
        endpoint: `http://${host}:1`,
      },
      credentials: async () => ({ accessKeyId: 'a', secretAccessKey: 's' }),
      time: instantClock(),
      onCall: () => (calls += 1),
      ...{ log, guard: guard() },
    })
    t.teardown(() => bucket.close())
    await t.rejects(bucket.list('p/'), {
      code: 'StorageError',
      reason: 'AddressRefused',
      message: /^LIST s3:\/\/b\/p\/: .*is not called from here/,
    })
    t.equal(calls, 1)
  }
})
