import t from 'tap'
import {
  fingerprints,
  validateSecrets,
  referencedSecrets,
} from '../../../hooks/cluster/validation.ts'
import { clusterSpec, secret } from '../../builders.ts'

const secretRef = { name: 'key', key: 'api' }
const keyReferences = referencedSecrets(
  clusterSpec({ apiKey: { autoGenerate: false, jwtRbac: false, secretRef } }),
)
const tlsReferences = referencedSecrets(
  clusterSpec({ tls: { enabled: true, secretRef: { name: 'key' } } }),
)

const rejected: [title: string, data: Record<string, string>, problem: string][] = [
  ['without the key', { other: 'x' }, 'has no key api'],
  ['with an empty key', { api: '' }, 'has an empty key api'],
  ['with a line break in the key', { api: 'abc\n' }, 'has a key api that contains a line break'],
  ...[
    '0123',
    '1e5',
    'null',
    'yes',
    'a: b',
    'x #y',
    '{{ .Values }}',
    '"x"',
    'ümlaut',
    'aü',
    '[a]',
    '[a',
    '"x',
  ].map((api): [string, Record<string, string>, string] => [
    `with the key ${api}`,
    { api },
    'has a key api that YAML does not parse as the same text: use letters and digits',
  ]),
]

for (const [title, data, problem] of rejected) {
  t.test(`a key Secret ${title} stops helm, naming Secret and key`, async (t) => {
    const found = validateSecrets(keyReferences, new Map([['key', secret(data)]]))
    t.equal(found, `spec.apiKey.secretRef: Secret key ${problem}`)
  })
}

for (const type of [
  ...[
    'kubernetes.io/service-account-token',
    'kubernetes.io/dockerconfigjson',
    'helm.sh/release.v1',
  ],
  ...['kubernetes.io/tls', 'kubernetes.io/ssh-auth', 'bootstrap.kubernetes.io/token'],
]) {
  t.test(`the value of a Secret of type ${type} is no key of an engine`, async (t) => {
    const named = { ...secret({ api: 'a'.repeat(32) }), type }
    const problem = `Secret key is of type ${type}, which cannot hold credentials`
    t.equal(
      validateSecrets(keyReferences, new Map([['key', named]])),
      `spec.apiKey.secretRef: ${problem}`,
    )
  })
}

t.test('a key Secret that does not exist stops helm', async (t) => {
  t.equal(
    validateSecrets(keyReferences, new Map()),
    'spec.apiKey.secretRef: Secret key does not exist',
  )
})

t.test('a key of more than 4096 bytes stops helm, and is not parsed', async (t) => {
  for (const api of ['&a '.repeat(300_000), 'a'.repeat(4097)]) {
    const found = validateSecrets(keyReferences, new Map([['key', secret({ api })]]))
    const problem = 'Secret key has a key api of more than 4096 bytes'
    t.equal(found, `spec.apiKey.secretRef: ${problem}`)
  }
  const longest = new Map([['key', secret({ api: 'a'.repeat(4096) })]])
  t.equal(validateSecrets(keyReferences, longest), undefined)
})

t.test('a key of letters, digits and harmless signs is used', async (t) => {
  const secrets = new Map([['key', secret({ api: 'aZ09-._~aZ09-._~aZ09-._~aZ09-._~' })]])
  t.equal(validateSecrets(keyReferences, secrets), undefined)
})

for (const missing of ['tls.crt', 'tls.key']) {
  t.test(`a TLS Secret without ${missing} stops helm`, async (t) => {
    const data = { 'tls.crt': 'c', 'tls.key': 'k', [missing]: '' }
    const found = validateSecrets(
      tlsReferences,
      new Map([['key', secret(data, 'kubernetes.io/tls')]]),
    )
    t.equal(found, `spec.tls.secretRef: Secret key has an empty key ${missing}`)
  })
}

t.test('a TLS Secret of another type stops helm', async (t) => {
  const data = { 'tls.crt': 'c', 'tls.key': 'k' }
  t.equal(
    validateSecrets(tlsReferences, new Map([['key', secret(data)]])),
    'spec.tls.secretRef: Secret key is of type Opaque, not kubernetes.io/tls',
  )
})

t.test('a certificate may have several lines, as certificates have', async (t) => {
  const pem = '-----BEGIN CERTIFICATE-----\nMIIB: x\n-----END CERTIFICATE-----\n'
  const data = { 'tls.crt': pem, 'tls.key': pem }
  const secrets = new Map([['key', secret(data, 'kubernetes.io/tls')]])
  t.equal(validateSecrets(tlsReferences, secrets), undefined)
})

t.test(
  'a Secret that says nothing of its type is Opaque, and one without data has no key',
  async (t) => {
    const bare = secret({})
    delete bare.type
    delete bare.data
    const secrets = new Map([['key', bare]])
    t.match(validateSecrets(tlsReferences, secrets), /is of type Opaque, not kubernetes\.io\/tls$/)
    t.match(validateSecrets(keyReferences, secrets), /has no key api$/)
  },
)

t.test('a certificate is used only where tls is enabled, and where it is named', async (t) => {
  const named = { secretRef: { name: 'key' } }
  t.strictSame(referencedSecrets(clusterSpec({ tls: { enabled: false, ...named } })), [])
  t.strictSame(referencedSecrets(clusterSpec({ tls: { enabled: true } })), [])
  t.equal(referencedSecrets(clusterSpec({ tls: { enabled: true, ...named } })).length, 1)
})

t.test('the fingerprint of a certificate covers the key pair and the authority', async (t) => {
  const print = (data: Record<string, string>) =>
    fingerprints(tlsReferences, new Map([['key', secret(data)]]))['key']
  const pair = { 'tls.crt': 'c', 'tls.key': 'k' }
  const all = [pair, { ...pair, 'ca.crt': 'a' }, { ...pair, 'ca.crt': 'b' }, { 'tls.crt': 'c' }]
  t.equal(new Set(all.map(print)).size, all.length)
  t.equal(print({ ...pair, other: 'x' }), print(pair))
  const keyPrint = (data: Record<string, string>) =>
    fingerprints(keyReferences, new Map([['key', secret(data)]]))['key']
  t.equal(keyPrint({ api: 'x', 'ca.crt': 'a' }), keyPrint({ api: 'x' }))
})

t.test('a generated key needs no Secret of the user', async (t) => {
  t.strictSame(
    referencedSecrets(clusterSpec({ apiKey: { autoGenerate: true, jwtRbac: true } })),
    [],
  )
})

t.test('a fingerprint changes with the value in use and with nothing else', async (t) => {
  const print = (data: Record<string, string>) =>
    fingerprints(keyReferences, new Map([['key', secret(data)]]))['key']
  t.match(print({ api: 'one' }), /^[0-9a-f]{16}$/)
  t.equal(print({ api: 'one' }), print({ api: 'one', other: 'x' }))
  t.not(print({ api: 'one' }), print({ api: 'two' }))
})

t.test('the fingerprint of a Secret with both keys covers each of them', async (t) => {
  const source = (key: string) => ({ autoGenerate: false, secretRef: { name: 'key', key } })
  const references = referencedSecrets(
    clusterSpec({ apiKey: { ...source('api'), jwtRbac: false }, readOnlyApiKey: source('read') }),
  )
  const print = (api: string, read: string) =>
    fingerprints(references, new Map([['key', secret({ api, read })]]))['key']
  const all = [print('a', 'r'), print('b', 'r'), print('a', 's'), print('r', 'a')]
  t.equal(new Set(all).size, all.length)
})
