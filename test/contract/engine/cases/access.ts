/** Who may do what: keys and tokens, facts section 8 and rows 17, 18 of section 16. */
import { SignJWT, UnsecuredJWT, type JWTPayload } from 'jose'
import { claimsOf, sign } from '../../../../hooks/access-key/token.ts'
import type { Case } from '../case.ts'
import type { Answer, Stage } from '../stage.ts'
import { created } from './collections.ts'

const KEY = 'full-key-of-the-engine-with-enough-bytes'
const READ_ONLY = 'read-only-key-of-the-engine-with-enough-bytes'
const ALTERNATIVE = 'alternative-key-of-the-engine-with-enough-bytes'
const SERVICE = { api_key: KEY, read_only_api_key: READ_ONLY, jwt_rbac: true }
/** With a second full key, as while keys are rotated. */
const ROTATING = { ...SERVICE, alt_api_key: ALTERNATIVE }
const LATER = Math.floor(Date.now() / 1000) + 3600
const EARLIER = Math.floor(Date.now() / 1000) - 3600

type Spec = Parameters<typeof claimsOf>[0]

const CLUSTER_REF = { name: 'a' }

/** A token as the VecAccessKey of this spec gets it. */
function token(spec: Omit<Spec, 'clusterRef'>, key = KEY): Promise<string> {
  return sign(claimsOf({ clusterRef: CLUSTER_REF, ...spec }, { issuedAt: 0 }), key)
}

/** A token with any claims. */
function odd(claims: JWTPayload | object, { key = KEY, alg = 'HS256' } = {}): Promise<string> {
  return new SignJWT(claims as JWTPayload)
    .setProtectedHeader({ alg, typ: 'JWT' })
    .sign(new TextEncoder().encode(key))
}

/** The calls of the matrix, those that take something away last. */
const CALLS: Record<string, [method: string, path: string, body?: unknown]> = {
  'list collections': ['GET', '/collections'],
  'read collection': ['GET', '/collections/own'],
  'read point': ['POST', '/collections/own/points/scroll', {}],
  count: ['POST', '/collections/own/points/count', {}],
  'write point': [
    'PUT',
    '/collections/own/points?wait=true',
    { points: [{ id: 1, vector: [1, 2] }] },
  ],
  'create index': [
    'PUT',
    '/collections/own/index?wait=true',
    { field_name: 'f', field_schema: 'keyword' },
  ],
  'delete index': ['DELETE', '/collections/own/index/f?wait=true'],
  'see shards': ['GET', '/collections/own/cluster'],
  'list snapshots': ['GET', '/collections/own/snapshots'],
  snapshot: ['POST', '/collections/own/snapshots?wait=true'],
  patch: ['PATCH', '/collections/own', { params: { read_fan_out_factor: 0 } }],
  alias: [
    'POST',
    '/collections/aliases',
    { actions: [{ create_alias: { collection_name: 'own', alias_name: 'al' } }] },
  ],
  'list aliases': ['GET', '/aliases'],
  cluster: ['GET', '/cluster'],
  'create collection': ['PUT', '/collections/made', { vectors: { size: 2, distance: 'Dot' } }],
  'read other': ['GET', '/collections/other'],
  'write other': [
    'PUT',
    '/collections/other/points?wait=true',
    { points: [{ id: 1, vector: [1, 2] }] },
  ],
  'read missing': ['GET', '/collections/missing'],
  exists: ['GET', '/collections/own/exists'],
  'delete other': ['DELETE', '/collections/other'],
  delete: ['DELETE', '/collections/own'],
  version: ['GET', '/'],
  readiness: ['GET', '/readyz'],
}

const READS = [
  'list collections',
  'read collection',
  'read point',
  'count',
  'list aliases',
  'exists',
  'version',
  'readiness',
]
const LOOKS = [...READS, 'see shards', 'list snapshots']
const OWN = [...LOOKS, 'write point', 'create index', 'delete index', 'snapshot']
const ALL = Object.keys(CALLS)

/** What each role may do; `read missing` is 404 to those that may. */
const ROLES: Record<string, { token: () => Promise<string> | string; may: string[] }> = {
  'full key': { token: () => KEY, may: ALL },
  'alternative key': { token: () => ALTERNATIVE, may: ALL },
  'read-only key': {
    token: () => READ_ONLY,
    may: [...LOOKS, 'cluster', 'read other', 'read missing'],
  },
  'access r': {
    token: () => token({ access: 'r' }),
    may: [...LOOKS, 'cluster', 'read other', 'read missing'],
  },
  'access m': { token: () => token({ access: 'm', subject: 'somebody' }), may: ALL },
  'access m by the alternative key': { token: () => token({ access: 'm' }, ALTERNATIVE), may: ALL },
  'collection r': {
    token: () => token({ collections: [{ name: 'own', access: 'r' }] }),
    may: LOOKS,
  },
  'collection rw': {
    token: () => token({ collections: [{ name: 'own', access: 'rw' }] }),
    may: OWN,
  },
  'collection prw': {
    token: () => token({ collections: [{ name: 'own', access: 'prw' }] }),
    may: [...READS, 'write point'],
  },
  'two collections': {
    token: () =>
      token({
        collections: [
          { name: 'own', access: 'r' },
          { name: 'other', access: 'rw' },
          { name: 'missing', access: 'r' },
        ],
      }),
    may: [...LOOKS, 'read other', 'write other', 'read missing'],
  },
  'no collection': {
    token: () => odd({ access: [] }),
    may: ['list collections', 'list aliases', 'version', 'readiness'],
  },
  'no access claim': { token: () => odd({}), may: ALL },
}

/** One cell: whether it went through, and the words where it did not. */
function cell({ status, body }: Answer): string {
  if (status < 400) return 'yes'
  const error = (body as { status?: { error?: string } }).status?.error
  return `${status} ${error ?? String(body)}`
}

async function grounded(stage: Stage): Promise<void> {
  for (const name of ['own', 'other']) {
    await created(stage, name, { vectors: { size: 2, distance: 'Dot' } })
  }
}

async function row(stage: Stage, key: string): Promise<Record<string, string>> {
  const cells: Record<string, string> = {}
  for (const [what, [method, path, body]] of Object.entries(CALLS)) {
    cells[what] = cell(await stage.ask(method, path, { key, ...(body !== undefined && { body }) }))
  }
  return cells
}

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

export const ACCESS: Case[] = [
  ...Object.entries(ROLES).map(([role, { token: made, may }]): Case => ({
    title: `what may be done with: ${role}`,
    service: role.endsWith('alternative key') ? ROTATING : SERVICE,
    async play(stage) {
      await grounded(stage)
      const cells = await row(stage, await made())
      stage.note(role, cells)
      const allowed = ALL.filter((call) => /^(yes|404)/.test(cells[call] ?? ''))
      const wrong = [
        ...allowed.filter((call) => !may.includes(call)),
        ...may.filter((call) => !allowed.includes(call)),
      ]
      if (wrong.length > 0) throw new Error(`${role}: not as expected: ${wrong.join(', ')}`)
    },
  })),
  {
    title:
      'a missing or unknown credential and one that is no token is 401, an old or foreign one 403',
    service: SERVICE,
    play: askOddly,
  },
  {
    title: 'beside an alternative key every token that fails is called a foreign one',
    service: ROTATING,
    play: askOddly,
  },
  {
    title: 'a credential may come as bearer token; api-key wins',
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
    title: 'a token with value_exists holds as long as its point is there',
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
    title: 'with a read-only key alone nobody may write',
    service: { read_only_api_key: READ_ONLY },
    async play(stage) {
      await stage.call('GET', '/collections', { key: READ_ONLY })
      await stage.call('GET', '/collections', { key: null })
      await stage.call('PUT', '/collections/a', { body: {}, key: READ_ONLY })
      await stage.call('PUT', '/collections/a', { body: {}, key: KEY })
    },
  },
]
