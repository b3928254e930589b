import t from 'tap'
import {
  customResourceDefinition,
  openApiSchema,
  RESOURCES,
  type OpenApiSchema,
} from '../../crds/crd.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { admit } from '../world/admission/admit.ts'
import { runCorpus, type Store } from './corpus-run.ts'
import { CORPUS } from './corpus.ts'
import { fieldLocations } from './corpus/bounds.ts'
import { SAMPLES } from './corpus/samples.ts'

const definitions = new Map<string, object>(
  RESOURCES.map((resource) => [resource.kind, customResourceDefinition(resource, '1.0.0')]),
)

/** Holds one object, and admits what is put in its place. */
function embeddedStore(): Store {
  let stored: AnyObject | undefined
  const put = async (object: AnyObject, old?: AnyObject) => {
    stored = admit(definitions.get(object.kind) ?? {}, object, old)
    return stored
  }
  return {
    create: (object) => put(object),
    replace: (object) => put(object, stored),
    delete: async () => {
      stored = undefined
    },
  }
}

t.test('the embedded admission accepts and refuses what the corpus says', async (t) => {
  for (const { title, passed, message } of await runCorpus(embeddedStore(), 'default')) {
    t.ok(passed, title, passed ? {} : { said: message })
  }
})

t.test('a case that must be rejected and is not fails, and so does the reverse', async (t) => {
  const lenient: Store = {
    create: async (object) => object,
    replace: async (object) => object,
    delete: async () => undefined,
  }
  const strict: Store = { ...lenient, create: async () => Promise.reject(new Error('no')) }
  const [accepted, refused] = [false, true].map((isRefused) =>
    CORPUS.filter(({ old, refused }) => old === undefined && (refused !== undefined) === isRefused),
  )
  for (const [store, cases = []] of [
    [lenient, refused],
    [strict, accepted],
  ] as const) {
    const results = await runCorpus(store, 'default', cases)
    t.ok(cases.length > 0)
    t.equal(results.length, cases.length)
    for (const { passed } of results) t.notOk(passed)
  }
})

t.test('no two cases have the same title', async (t) => {
  const titles = CORPUS.map(({ title }) => title)
  t.strictSame(titles.toSorted(), [...new Set(titles)].toSorted())
})

function messagesIn(schema: OpenApiSchema): string[] {
  const parts = [
    ...Object.values(schema.properties ?? {}),
    ...[schema.items, schema.additionalProperties].filter((part) => part !== undefined),
  ]
  const ownMessages = (schema['x-kubernetes-validations'] ?? []).map(({ message }) => message)
  return [...ownMessages, ...parts.flatMap(messagesIn)]
}

for (const resource of RESOURCES) {
  const { kind } = resource
  const schema = openApiSchema(resource)

  t.test(`each admission rule of ${kind} refuses an object of the corpus`, async (t) => {
    const rejections = CORPUS.filter((testCase) => testCase.kind === kind).map(
      ({ refused }) => refused?.message,
    )
    const messages = messagesIn(schema)
    t.equal(messages.length, JSON.stringify(schema).split('"rule":').length - 1)
    for (const message of messages) {
      t.ok(
        rejections.some((rejection) => rejection !== undefined && message.includes(rejection)),
        message,
      )
    }
  })

  t.test(`the samples of ${kind} set every field of its spec`, async (t) => {
    const locations = SAMPLES.filter((sample) => sample.kind === kind).flatMap(fieldLocations)
    const paths = new Set(
      locations.map(({ steps }) => steps.filter((step) => typeof step === 'string').join('.')),
    )
    for (const path of pathsIn(schema.properties.spec, 'spec')) {
      t.ok(paths.has(path), path)
    }
  })
}

function pathsIn(schema: OpenApiSchema, path: string): string[] {
  const fields = Object.entries((schema.items ?? schema).properties ?? {})
  return fields.flatMap(([name, field]) => [
    `${path}.${name}`,
    ...pathsIn(field, `${path}.${name}`),
  ])
}
