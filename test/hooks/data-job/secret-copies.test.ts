import t from 'tap'
import { ANNOTATIONS, API_KEY_SECRET_KEY } from '../../../crds/contract/names.ts'
import {
  secretCopyRefs,
  secretCopiesToWrite,
  readSecretCopies,
} from '../../../hooks/data-job/secret-copies.ts'
import { clusterCopySources, availableCredentials } from '../../../hooks/data-job/observe.ts'
import { cluster, secret } from '../../builders.ts'
import { dataJobOf } from './fixtures.ts'

const job = dataJobOf({ kind: 'backup', name: 'b', uid: 'uid-b', plan: 'desired' })
const keyed = cluster({ spec: { apiKey: { autoGenerate: true, jwtRbac: false } } })
const engine = secret({ [API_KEY_SECRET_KEY]: 'key' })
const tls = secret({ 'ca.crt': 'authority', 'tls.key': 'private' })
const names = (secrets: { metadata: { name: string } }[]) =>
  secrets.map(({ metadata }) => metadata.name)

const OPEN = { from: 'elsewhere', settings: { crossNamespace: 'open' } } as const

t.test('a cluster has the credentials that it asks for and that are there', async (t) => {
  t.strictSame(availableCredentials(keyed, { engine, tls }), ['engine', 'tls'])
  t.strictSame(availableCredentials(cluster(), { engine }), [], 'a key that it does not ask for')
  t.strictSame(availableCredentials(keyed, {}), [], 'none of them is there')
  t.strictSame(availableCredentials(keyed, { tls: secret({ 'tls.key': 'private' }) }), [])
  const empty = secret({})
  delete empty.data
  t.strictSame(availableCredentials(keyed, { tls: empty }), [], 'a Secret without data')
})

t.test('a copy has the keys that were read from its source, and nothing else', async (t) => {
  const [first, second, ...more] = secretCopiesToWrite(
    clusterCopySources(keyed, { engine, tls }, OPEN),
    {},
    job,
  )
  t.strictSame(more, [])
  t.strictSame(first?.data, engine.data)
  t.strictSame(Object.keys(second?.data ?? {}), ['ca.crt'])
  const { apiVersion, kind, metadata } = job
  t.strictSame(first?.metadata.ownerReferences, [
    { apiVersion, kind, name: metadata.name, uid: metadata.uid },
  ])
  t.equal(first?.metadata.namespace, 'ns')
})

t.test('credentials are lent only to a namespace that the cluster allows now', async (t) => {
  const lent = (from: string, crossNamespace: 'open' | 'closed', allowFrom?: string) => {
    const annotations =
      allowFrom === undefined ? {} : { [ANNOTATIONS.allowedNamespaces]: allowFrom }
    const owner = { ...keyed, metadata: { ...keyed.metadata, annotations } }
    return clusterCopySources(owner, { engine, tls }, { from, settings: { crossNamespace } }).length
  }
  t.equal(lent('far', 'open'), 2)
  t.equal(lent('far', 'closed'), 0)
  t.equal(lent('ns', 'closed'), 2, 'its own namespace')
  t.equal(lent('far', 'closed', 'other, far'), 2)
  t.equal(lent('far', 'open', 'other'), 0, 'a list is all there is')
  t.equal(lent('far', 'open', ''), 0)
  t.equal(lent('far', 'closed', '*'), 2)
})

t.test('a copy of a Secret that holds nothing holds nothing', async (t) => {
  const empty = secret({})
  delete empty.data
  const [copy, ...more] = secretCopiesToWrite(
    clusterCopySources(keyed, { engine: empty }, OPEN),
    {},
    job,
  )
  t.strictSame([copy?.data, more], [{}, []])
})

t.test('a copy that is as its source is not written again; one that differs is', async (t) => {
  const originals = clusterCopySources(keyed, { engine, tls }, OPEN)
  const [one, other] = secretCopiesToWrite(originals, {}, job)
  const there = { ...(one && { engine: one }), ...(other && { tls: other }) }
  t.strictSame(secretCopiesToWrite(originals, there, job), [])
  const rotated = clusterCopySources(
    keyed,
    { engine: secret({ [API_KEY_SECRET_KEY]: 'new' }), tls },
    OPEN,
  )
  t.strictSame(names(secretCopiesToWrite(rotated, there, job)), names(one ? [one] : []))
})

t.test('a copy is not written again because the API server sorts its keys', async (t) => {
  const data = secret({ rootUser: 'u', rootPassword: 'p', 'ca.crt': 'authority' }).data ?? {}
  const sources = [{ credential: 'bucket', keys: Object.keys(data), secret: { data } }]
  const sorted = Object.fromEntries(Object.entries(data).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  const bucket = { ...secret({}), data: sorted }
  t.strictSame(secretCopiesToWrite(sources, { bucket }, job), [])
  const { rootUser: _, ...fewer } = sorted
  for (const other of [fewer, { ...sorted, more: '' }, { ...sorted, rootUser: '' }]) {
    const existing = { bucket: { ...bucket, data: other } }
    t.equal(secretCopiesToWrite(sources, existing, job).length, 1)
  }
})

t.test('the copies of a Job are read and deleted by its name, each with its owner', async (t) => {
  const [one, other] = secretCopyRefs(['engine', 'tls'], job)
  t.strictSame([one?.namespace, one?.ownerUid], ['ns', job.metadata.uid])
  t.not(one?.name, other?.name)
  const asked: string[] = []
  const copies = await readSecretCopies(['engine', 'tls'], job, {
    async secretCopy(namespace, name) {
      asked.push(`${namespace}/${name}`)
      return name === other?.name ? tls : undefined
    },
  })
  t.strictSame(asked, [`ns/${one?.name ?? ''}`, `ns/${other?.name ?? ''}`])
  t.strictSame(copies, { tls }, 'one that is not there is none')
})
