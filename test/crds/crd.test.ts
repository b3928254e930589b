import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import t from 'tap'
import {
  customResourceDefinition,
  openApiSchema,
  RESOURCES,
  toStructuralSchema,
  type OpenApiSchema,
} from '../../crds/crd.ts'
import { matchWhole } from '../match-whole.ts'
import { admit } from '../world/admission/admit.ts'
import { SAMPLES } from './corpus/samples.ts'

const definitions = RESOURCES.map((resource) => customResourceDefinition(resource, '1.2.3'))

t.test('kinds, short names and plurals are those of the specification', async (t) => {
  const names = definitions.map(({ metadata, spec }) => [
    spec.names.kind,
    spec.names.shortNames.join(),
    spec.names.plural,
    metadata.name,
  ])
  const group = 'vec-operator.dev'
  t.strictSame(names, [
    ['VecCluster', 'qc', 'vecclusters', `vecclusters.${group}`],
    ['VecCollection', 'qcol', 'veccollections', `veccollections.${group}`],
    ['VecAccessKey', 'qak', 'vecaccesskeys', `vecaccesskeys.${group}`],
    ['VecBackup', 'qb', 'vecbackups', `vecbackups.${group}`],
    ['VecBackupSchedule', 'qbs', 'vecbackupschedules', `vecbackupschedules.${group}`],
    ['VecRestore', 'qr', 'vecrestores', `vecrestores.${group}`],
    ['VecMigration', 'qmig', 'vecmigrations', `vecmigrations.${group}`],
  ])
})

t.test(
  'all kinds are namespaced, v1alpha1, with a status subresource; VecCluster has a scale subresource too',
  async (t) => {
    const scale = {
      specReplicasPath: '.spec.replicas',
      statusReplicasPath: '.status.replicas',
      labelSelectorPath: '.status.selector',
    }
    for (const { spec, metadata } of definitions) {
      const [version] = spec.versions
      t.equal(spec.scope, 'Namespaced')
      t.equal(version?.name, 'v1alpha1')
      const isScalable = spec.names.kind === 'VecCluster'
      t.strictSame(version?.subresources, { status: {}, ...(isScalable && { scale }) })
      t.strictSame(metadata.annotations, { 'vec-operator.dev/version': '1.2.3' })
    }
  },
)

t.test('print columns are those of the specification', async (t) => {
  const columns = definitions.map(({ spec }) =>
    spec.versions[0]?.additionalPrinterColumns
      .filter(({ priority = 0 }) => priority === 0)
      .map(({ name }) => name.toUpperCase())
      .join(', '),
  )
  t.strictSame(columns, [
    'PHASE, REPLICAS, READY, VERSION, AGE',
    'CLUSTER, COLLECTION, PHASE, POINTS, HEALTH, AGE',
    'CLUSTER, ACCESS, PHASE, SECRET, EXPIRES, AGE',
    'CLUSTER, PHASE, SIZE, AGE',
    'SCHEDULE, CLUSTER, PHASE, LAST BACKUP, AGE',
    'SOURCE, TARGET, PHASE, AGE',
    'SOURCE, TARGET, PHASE, PROGRESS, AGE',
  ])
})

t.test(
  'kubectl get vec lists all kinds, and -o wide shows the message of the main condition',
  async (t) => {
    for (const { spec } of definitions) {
      t.strictSame(spec.names.categories, ['vec'], spec.names.kind)
      const columns = spec.versions[0]?.additionalPrinterColumns ?? []
      const wide = columns.find(({ name }) => name === 'Message')
      const isCompleting = ['VecBackup', 'VecRestore', 'VecMigration'].includes(spec.names.kind)
      t.strictSame(wide, {
        name: 'Message',
        type: 'string',
        jsonPath: `.status.conditions[?(@.type=="${isCompleting ? 'Complete' : 'Ready'}")].message`,
        priority: 1,
      })
    }
  },
)

t.test('-o wide of a VecCluster shows why its spec is not applied', async (t) => {
  const [version] =
    definitions.find(({ spec }) => spec.names.kind === 'VecCluster')?.spec.versions ?? []
  t.strictSame(
    version?.additionalPrinterColumns.filter(({ priority }) => priority === 1),
    [
      { name: 'Desired Version', type: 'string', jsonPath: '.spec.version', priority: 1 },
      {
        ...{ name: 'Applied', type: 'string', priority: 1 },
        jsonPath: '.status.conditions[?(@.type=="Applied")].reason',
      },
      {
        ...{ name: 'Message', type: 'string', priority: 1 },
        jsonPath: '.status.conditions[?(@.type=="Ready")].message',
      },
    ],
  )
})

function fieldsOf(schema: OpenApiSchema, path: string): [path: string, schema: OpenApiSchema][] {
  const fields = Object.entries((schema.items ?? schema).properties ?? {})
  return fields.flatMap(([name, field]) => [
    [`${path}.${name}`, field] as [string, OpenApiSchema],
    ...fieldsOf(field, `${path}.${name}`),
  ])
}

for (const resource of RESOURCES) {
  const { kind } = resource
  const { spec, status } = openApiSchema(resource).properties

  t.test(`every field of ${kind} is described to kubectl explain`, async (t) => {
    const fields = [...fieldsOf(spec, 'spec'), ...fieldsOf(status, 'status')]
    for (const [path, { description }] of fields) t.match(description, /^\S.+/, path)
  })

  t.test(`nothing is defaulted in the status of ${kind}, nothing is required`, async (t) => {
    t.equal(status.required, undefined)
    for (const [path, field] of fieldsOf(status, 'status')) t.equal(field.default, undefined, path)
  })

  t.test(`${kind} has observedGeneration and conditions`, async (t) => {
    t.match(status.properties?.['observedGeneration'], { type: 'integer', format: 'int64' })
    matchWhole(t, status.properties?.['conditions'], { 'x-kubernetes-list-map-keys': ['type'] })
  })

  t.test(`the columns of ${kind} show fields that exist`, async (t) => {
    const paths = [...fieldsOf(spec, '.spec'), ...fieldsOf(status, '.status')].map(([path]) => path)
    const known = [...paths, '.metadata.creationTimestamp']
    for (const { jsonPath } of resource.columns) {
      // A filter chooses one entry of a list.
      t.ok(known.includes(jsonPath.replace(/\[\?\(.*\)\]/, '')), jsonPath)
    }
  })
}

t.test('rules say what Kubernetes 1.26 knows: a rule and a message', async (t) => {
  const text = JSON.stringify(definitions)
  const known = ['rule', 'message']
  const lists = [...text.matchAll(/"x-kubernetes-validations":(\[\{.*?\}\])/g)]
  t.equal(lists.length, text.split('"x-kubernetes-validations"').length - 1)
  t.not(lists.length, 0)
  for (const [, list = ''] of lists) {
    for (const one of JSON.parse(list) as object[]) t.strictSame(Object.keys(one), known)
  }
})

t.test('an admitted object is what its TypeScript type says', async (t) => {
  for (const sample of SAMPLES) {
    const index = RESOURCES.findIndex(({ kind }) => kind === sample.kind)
    const spec = RESOURCES[index]?.spec ?? Type.Never()
    const admitted = admit(definitions[index] ?? {}, sample) as unknown as { spec: unknown }
    t.strictSame([...Value.Errors(spec, admitted.spec)], [], sample.kind)
  }
})

t.test('a schema that no CRD can hold is a defect', async (t) => {
  t.throws(() => toStructuralSchema(Type.Tuple([])), {
    message: 'a CRD cannot hold the TypeBox kind Tuple',
  })
})
