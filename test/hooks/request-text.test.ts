import t from 'tap'
import { scanRequest } from '../../hooks/request-bodies.ts'

/** As it is parsed. */
const scanned = (object: unknown) => {
  const { json, values } = scanRequest(JSON.stringify(object))
  return { object: JSON.parse(json) as unknown, values }
}

t.test('values are counted outside of strings', async (t) => {
  for (const [object, values] of [
    ['a', 1],
    [[], 2],
    [[1, 2, 3], 4],
    [{ a: { b: [] } }, 4],
    [{ 'a,[{': 'b,[{"\\' }, 2],
    [['\\', '\\"', '"', ',,,'], 5],
  ] as const)
    t.strictSame(scanned(object), { object, values }, JSON.stringify(object))
})

t.test('managed fields of the parent, children and related objects are left out', async (t) => {
  const managedFields = [{ manager: 'm', fieldsV1: { 'f:a,]}': { '.': {} } } }, { manager: '"]' }]
  const request = (metadata: object) => ({
    parent: { metadata, spec: { a: [1] } },
    children: { Job: { a: { metadata }, b: { metadata, spec: {} } } },
    related: { Secret: { c: { metadata } } },
  })
  for (const [managed, metadata] of [
    [
      { labels: { a: 'b' }, managedFields, name: 'n' },
      { labels: { a: 'b' }, name: 'n' },
    ],
    [{ managedFields, name: 'n' }, { name: 'n' }],
    [{ name: 'n', managedFields }, { name: 'n' }],
    [{ managedFields }, {}],
    [{ managedFields: [] }, {}],
  ] as const) {
    t.strictSame(scanned(request(managed)).object, request(metadata), JSON.stringify(managed))
    t.ok(scanned(request(managed)).values <= scanned(request(metadata)).values + 5)
  }
})

t.test('text that only looks like managed fields is kept', async (t) => {
  const metadata = { managedFields: [1], b: 2 }
  for (const object of [
    { managedFields: [1] },
    { metadata },
    { parent: { metadata: { managedFields: null, annotations: { managedFields: '[1]' } } } },
    { parent: { metadata: 'x', spec: metadata } },
    { parent: { spec: { template: { metadata }, config: { metadata } } } },
    { parent: { spec: { config: { a: { metadata } } } } },
    { parent: { metadata: { name: 'managedFields', labels: metadata } } },
    { parent: { metadata: [metadata] } },
    { parent: [{ metadata: 'x' }, metadata] },
    { children: { Job: { a: { spec: { template: { metadata } } } } } },
    { children: { Job: { metadata } } },
    { other: { Job: { a: { metadata } } } },
  ])
    t.strictSame(scanned(object).object, object, JSON.stringify(object))
})

t.test('a text that is not JSON is passed on as it is', async (t) => {
  const begun = '{"parent":{"metadata":{"managedFields":'
  for (const text of ['', '"', '"\\', '[', ']]', '}', `${begun}[`, `${begun}["`, `${begun}[[]`])
    t.equal(scanRequest(text).json, text, text)
})
