/** Permissions of keys and tokens: see docs/engine-notes.md. */
import { UnsecuredJWT } from 'jose'
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import {
  ALTERNATIVE,
  EARLIER,
  KEY,
  LATER,
  READ_ONLY,
  ROTATING,
  SERVICE,
  grounded,
  odd,
  token,
} from './credentials.ts'

async function askOddly(stage: Stage): Promise<void> {
  const access = 'm'
  const keys: Record<string, string | null> = {
    none: null,
    empty: '',
    unknown: 'nope',
    expired: await odd({ access, exp: EARLIER }),
    'not expired': await odd({ access, exp: LATER }),
    'within the leeway': await odd({ access, exp: Math.floor(Date.now() / 1000) - 10 }),
    'signed with a rotated key': await odd(
      { access },
      { key: 'an-old-key-of-the-engine-with-enough-bytes' },
    ),
    HS512: await odd({ access }, { alg: 'HS512' }),
    'no algorithm': new UnsecuredJWT({ access }).encode(),
    'access rw': await odd({ access: 'rw' }),
    'exp as text': await odd({ access, exp: String(LATER) }),
    'exp with a fraction': await odd({ access, exp: LATER + 0.5 }),
    'sub as a number': await odd({ access, sub: 5 }),
    'm for a collection': await odd({ access: [{ collection: 'own', access: 'm' }] }),
    'a collection twice': await odd({
      access: [
        { collection: 'own', access: 'r' },
        { collection: 'own', access: 'rw' },
      ],
    }),
    'payload in an entry': await odd({
      access: [{ collection: 'own', access: 'r', payload: { a: 1 } }],
    }),
    'unknown claims': await odd({ access, nbf: LATER, iss: 'x', foo: 1 }),
    'a short key': await odd({ access }, { key: 'short-key-123456' }),
  }
  for (const [what, key] of Object.entries(keys)) {
    const { status, type, body } = await stage.ask('GET', '/collections', { key })
    stage.note(what, { status, type, body })
  }
}

/** Keys, and a token that each has signed: what reads, and what writes. */
async function askInBothWays(stage: Stage): Promise<void> {
  const keys = {
    'of the file': KEY,
    'second of the file': ALTERNATIVE,
    'another second of the file': 'alternative-key-of-the-file-with-enough-bytes',
    'in a variable': IN_VARIABLE,
    'of digits in a variable': ALL_DIGITS,
    'read-only': READ_ONLY,
  }
  for (const [what, key] of Object.entries(keys)) {
    const signed = await token({ access: 'm' }, key)
    const reader = await token({ access: 'r' }, key)
    const ask = async (credential: string, method = 'GET') => {
      const path = method === 'GET' ? '/collections' : '/collections/a'
      const body = method === 'GET' ? undefined : { vectors: { size: 1, distance: 'Dot' } }
      const { status } = await stage.ask(method, path, { key: credential, body })
      return status
    }
    stage.note(what, {
      key: [await ask(key), await ask(key, 'PUT')],
      manages: [await ask(signed), await ask(signed, 'PUT')],
      reads: [await ask(reader), await ask(reader, 'PUT')],
    })
    await stage.clear()
  }
}

const IN_VARIABLE = 'key-in-a-variable-of-the-engine-with-enough-bytes'
/** A variable is text, also where a file would have a number. */
const ALL_DIGITS = '01234567890123456789012345678901'

export const ACCESS: Case[] = [
  {
    title:
      'a missing or unknown credential and one that is no token is 401, an old or foreign one 403',
    service: SERVICE,
    play: askOddly,
  },
  {
    title: 'with an alternative key every rejected token gets the error of a foreign one',
    service: ROTATING,
    play: askOddly,
  },
  {
    title: 'a credential may be a bearer token; the header api-key takes precedence',
    service: SERVICE,
    async play(stage) {
      const bearer = (authorization: string, key: string | null = null) =>
        stage.call('GET', '/collections', { key, headers: { authorization } })
      await bearer(`Bearer ${KEY}`)
      await bearer(`bearer ${KEY}`)
      await bearer(KEY)
      await bearer(`Bearer ${KEY}`, 'nope')
      await bearer('Bearer nope', KEY)
    },
  },
  {
    title: 'a token with value_exists is valid as long as its point exists',
    service: SERVICE,
    async play(stage) {
      await grounded(stage)
      const value = (collection: string, pair: unknown) => ({
        collection,
        matches: [{ key: 't', value: pair as string }],
      })
      const key = await token({ access: 'r', valueExists: value('own', 'x') })
      const number = await token({ access: 'r', valueExists: value('own', 1) })
      const missing = await token({ access: 'r', valueExists: value('none', 'x') })
      const none = await odd({ access: 'r', value_exists: { collection: 'own' } })
      const any = await odd({ access: 'r', value_exists: { collection: 'own', matches: [] } })
      const ask = (used: string) => stage.call('GET', '/collections/other', { key: used })
      await ask(key)
      await ask(any)
      const points = [
        { id: 1, vector: [1, 2], payload: { t: 'x' } },
        { id: 2, vector: [1, 2], payload: { t: '1' } },
      ]
      await stage.ask('PUT', '/collections/own/points?wait=true', { body: { points } })
      await ask(key)
      await ask(number)
      await ask(missing)
      await ask(none)
      await ask(any)
      await stage.ask('POST', '/collections/own/points/delete?wait=true', { body: { points: [1] } })
      await ask(key)
      await stage.call('GET', '/readyz', { key })
    },
  },
  {
    title: 'keys in variables win over those of the file, as text, and tokens of either are valid',
    service: { ...ROTATING, alt_api_key: 'alternative-key-of-the-file-with-enough-bytes' },
    env: { QDRANT__SERVICE__API_KEY: IN_VARIABLE, QDRANT__SERVICE__ALT_API_KEY: ALL_DIGITS },
    play: askInBothWays,
  },
  {
    title: 'a variable for the second key alone adds it to the key of the file',
    service: SERVICE,
    env: { QDRANT__SERVICE__ALT_API_KEY: ALL_DIGITS },
    play: askInBothWays,
  },
  {
    title: 'a variable for the main key leaves the second key of the file',
    service: ROTATING,
    env: { QDRANT__SERVICE__API_KEY: IN_VARIABLE },
    play: askInBothWays,
  },
  {
    title: 'without jwt_rbac a token is no credential',
    service: { api_key: KEY },
    async play(stage) {
      await stage.call('GET', '/collections', { key: await token({ access: 'm' }) })
      await stage.call('GET', '/collections', { key: KEY })
      await stage.call('GET', '/readyz', { key: null })
      await stage.call('GET', '/', { key: 'nope' })
    },
  },
  {
    title: 'without any key everything is open',
    async play(stage) {
      await stage.call('GET', '/collections', { key: null })
      await stage.call('GET', '/collections', { key: 'anything' })
    },
  },
  {
    title: 'an empty key is a key',
    service: { api_key: '' },
    async play(stage) {
      await stage.call('GET', '/collections', { key: null })
      await stage.call('GET', '/collections', { key: '' })
      await stage.call('GET', '/collections', { key: 'anything' })
    },
  },
  {
    title: 'with only a read-only key no call may write',
    service: { read_only_api_key: READ_ONLY },
    async play(stage) {
      await stage.call('GET', '/collections', { key: READ_ONLY })
      await stage.call('GET', '/collections', { key: null })
      await stage.call('PUT', '/collections/a', { body: {}, key: READ_ONLY })
      await stage.call('PUT', '/collections/a', { body: {}, key: KEY })
    },
  },
]
