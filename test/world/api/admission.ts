/** What the API server checks and fills in for the built-in kinds we use: just what our objects meet. */
import { createHash } from 'node:crypto'
import { parseQuantity } from '../../../crds/units.ts'
import type { ApiObject } from '../client.ts'
import { equal, isRecord, recordAt, valueAt, type Json } from './json.ts'
import type { Kind } from './kinds.ts'
import { immutable, type Cause } from './failure.ts'
import { jobCauses, withJobDefaults, withJobLabels } from './jobs.ts'
import { dataCauses } from './labels.ts'
import { podCauses } from './pod-template.ts'
import { STATEFUL_SET, statefulSetCauses } from './stateful-sets.ts'

interface Rules {
  /** Fills in what was left out of a new object. */
  create?: (object: ApiObject) => ApiObject
  /** Fills in what an update left out. */
  update?: (object: ApiObject, old: ApiObject) => ApiObject
  causes?: (object: ApiObject, old: ApiObject | undefined) => Cause[]
}

/** The object with what its kind fills in. */
export function defaulted(kind: Kind, object: ApiObject, old?: ApiObject): ApiObject {
  const rules = rulesOf(kind)
  if (old === undefined) return rules.create?.(object) ?? object
  return rules.update?.(object, old) ?? object
}

/** Everything its kind has against the object. */
export function kindCauses(kind: Kind, object: ApiObject, old?: ApiObject): Cause[] {
  return rulesOf(kind).causes?.(object, old) ?? []
}

const RULES: Record<string, Rules> = {
  Namespace: {
    create: (object) => ({
      ...object,
      metadata: {
        ...object.metadata,
        labels: {
          ...object.metadata.labels,
          'kubernetes.io/metadata.name': object.metadata.name,
        },
      },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    }),
    update: (object, old) => ({ ...object, spec: old.spec }),
  },
  ConfigMap: { causes: dataCauses },
  Event: { causes: eventCauses },
  Secret: {
    create: withStringData,
    update: withStringData,
    causes: (object, old) => [
      ...badBase64(object),
      ...missingTls(object),
      ...dataCauses(object),
      ...(old !== undefined && object['type'] !== old['type']
        ? [immutable('type', object['type'])]
        : []),
    ],
  },
  Pod: {
    create: (object) => ({
      ...object,
      spec: {
        restartPolicy: 'Always',
        terminationGracePeriodSeconds: 30,
        serviceAccountName: 'default',
        ...recordAt(object, 'spec'),
      },
      status: { phase: 'Pending', qosClass: 'BestEffort' },
    }),
    causes: (object) => podCauses(recordAt(object, 'spec'), 'spec'),
  },
  Deployment: {
    causes: (object) => podCauses(recordAt(object, 'spec.template.spec'), 'spec.template.spec'),
  },
  PersistentVolumeClaim: {
    create: (object) => ({ ...object, status: { phase: 'Pending' } }),
    causes: claimCauses,
  },
  Service: { create: withAddress, update: withClusterIp },
  StatefulSet: {
    create: (object) => ({ ...withSpec(object, STATEFUL_SET), status: { replicas: 0 } }),
    update: (object) => withSpec(object, STATEFUL_SET),
    causes: statefulSetCauses,
  },
  Job: { create: withJobDefaults, update: withJobLabels, causes: jobCauses },
  RoleBinding: { causes: roleRefCauses },
  ClusterRoleBinding: { causes: roleRefCauses },
  CustomResourceDefinition: { create: established },
}

function rulesOf(kind: Kind): Rules {
  return kind.definition === undefined ? (RULES[kind.kind] ?? {}) : {}
}

function withSpec(object: ApiObject, defaults: Json): ApiObject {
  return { ...object, spec: { ...defaults, ...recordAt(object, 'spec') } }
}

function withStringData(object: ApiObject): ApiObject {
  const { stringData, ...rest } = object
  const written = Object.entries(isRecord(stringData) ? stringData : {}).map(([key, value]) => [
    key,
    Buffer.from(String(value)).toString('base64'),
  ])
  const data = { ...recordAt(object, 'data'), ...(Object.fromEntries(written) as Json) }
  return { type: 'Opaque', ...rest, ...(Object.keys(data).length > 0 && { data }) }
}

function badBase64(object: ApiObject): Cause[] {
  return Object.entries(recordAt(object, 'data'))
    .filter(([, value]) => typeof value !== 'string' || !/^[A-Za-z0-9+/\r\n]*={0,2}$/.test(value))
    .map(([key]) => ({ field: `data[${key}]`, message: 'Invalid value: illegal base64 data' }))
}

/** An Event is in the namespace of its object; that of a cluster-scoped object is in `default`. */
function eventCauses({ metadata, ...object }: ApiObject): Cause[] {
  const involved = valueAt(object, 'involvedObject.namespace')
  const namespace = typeof involved === 'string' ? involved : ''
  if (metadata.namespace === (namespace === '' ? 'default' : namespace)) return []
  const message = `Invalid value: ${JSON.stringify(namespace)}: does not match event.namespace`
  return [{ field: 'involvedObject.namespace', message }]
}

function missingTls(object: ApiObject): Cause[] {
  if (object['type'] !== 'kubernetes.io/tls') return []
  const data = recordAt(object, 'data')
  return ['tls.crt', 'tls.key']
    .filter((key) => !(key in data))
    .map((key) => ({ field: `data[${key}]`, message: 'Required value' }))
}

function withAddress(object: ApiObject): ApiObject {
  // The address leads nowhere, but clients expect one.
  const [third, fourth] = createHash('sha256')
    .update(object.metadata.uid ?? '')
    .digest()
  const clusterIP = `10.96.${third ?? 0}.${fourth ?? 0}`
  return { ...withSpec(object, { type: 'ClusterIP', clusterIP }), status: { loadBalancer: {} } }
}

function withClusterIp(object: ApiObject, old: ApiObject): ApiObject {
  return withSpec(object, { type: 'ClusterIP', clusterIP: valueAt(old, 'spec.clusterIP') })
}

const CLAIM_MUTABLE = ['resources', 'volumeAttributesClassName']

function claimCauses(object: ApiObject, old: ApiObject | undefined): Cause[] {
  if (old === undefined) return []
  const fixed = (of: ApiObject) =>
    Object.fromEntries(
      Object.entries(recordAt(of, 'spec')).filter(([key]) => !CLAIM_MUTABLE.includes(key)),
    )
  if (!equal(fixed(object), fixed(old))) {
    const message =
      'Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims'
    return [{ field: 'spec', message }]
  }
  const requested = (of: ApiObject) =>
    parseQuantity(String(valueAt(of, 'spec.resources.requests.storage')))
  if (requested(object) >= requested(old)) return []
  const message = 'Forbidden: field can not be less than status.capacity'
  return [{ field: 'spec.resources.requests.storage', message }]
}

function roleRefCauses(object: ApiObject, old: ApiObject | undefined): Cause[] {
  if (old === undefined || equal(object['roleRef'], old['roleRef'])) return []
  const message = `Invalid value: ${JSON.stringify(object['roleRef'])}: cannot change roleRef`
  return [{ field: 'roleRef', message }]
}

function established(object: ApiObject): ApiObject {
  const condition = { status: 'True', lastTransitionTime: object.metadata.creationTimestamp }
  return {
    ...object,
    status: {
      acceptedNames: valueAt(object, 'spec.names'),
      storedVersions: (valueAt(object, 'spec.versions') as { name: string; storage: boolean }[])
        .filter(({ storage }) => storage)
        .map(({ name }) => name),
      conditions: [
        {
          ...condition,
          type: 'NamesAccepted',
          reason: 'NoConflicts',
          message: 'no conflicts found',
        },
        { ...condition, type: 'Established', reason: 'InitialNamesAccepted', message: 'ok' },
      ],
    },
  }
}
