/** What each role may do: facts section 8 and rows 17, 18 of section 16. */
import type { Case } from '../case.ts'
import type { Answer, Stage } from '../stage.ts'
import {
  ALTERNATIVE,
  KEY,
  READ_ONLY,
  ROTATING,
  SERVICE,
  grounded,
  odd,
  token,
} from './credentials.ts'

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
  'access m': { token: () => token({ access: 'm', subject: 'another-client' }), may: ALL },
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

async function row(stage: Stage, key: string): Promise<Record<string, string>> {
  const cells: Record<string, string> = {}
  for (const [what, [method, path, body]] of Object.entries(CALLS)) {
    cells[what] = cell(await stage.ask(method, path, { key, ...(body !== undefined && { body }) }))
  }
  return cells
}

export const ROLE_CASES: Case[] = Object.entries(ROLES).map(
  ([role, { token: made, may }]): Case => ({
    title: `calls that are allowed with: ${role}`,
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
  }),
)
