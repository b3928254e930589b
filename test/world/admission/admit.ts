/**
 * Admission of a custom resource as the API server does it: prune, default, validate, rules. Used by
 * the embedded API; test/crds holds it to the real one.
 */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { brokenRules } from './cel.ts'
import { Invalid, ROOT, type Cause } from './invalid.ts'
import { fillDefaults, prune } from './prune.ts'
import { isFields, type Schema } from './structure.ts'
import { validate } from './validate.ts'

/** The parts of a CustomResourceDefinition that admission looks at. */
interface Definition {
  spec: {
    group: string
    names: { kind: string }
    versions: { name: string; schema?: { openAPIV3Schema?: Schema } }[]
  }
}

/**
 * The object as it would be stored, in the place of `old` when that is given. Throws `Invalid` with
 * the causes.
 */
export function admit(crd: object, object: AnyObject, old?: AnyObject): AnyObject {
  const { spec } = crd as Definition
  const schema = schemaFor(spec, object.apiVersion)
  const admitted = structuredClone(object)
  prune(schema, admitted)
  fillDefaults(schema, admitted)
  const causes = problems(schema, admitted, old)
  if (causes.length > 0) {
    throw new Invalid(`${spec.names.kind}.${spec.group} "${object.metadata.name}"`, causes)
  }
  return admitted
}

function schemaFor({ group, versions }: Definition['spec'], apiVersion: string): Schema {
  const version = versions.find(({ name }) => `${group}/${name}` === apiVersion)
  if (version === undefined) throw new Error(`the CRD has no version ${apiVersion}`)
  const schema = version.schema?.openAPIV3Schema ?? {}
  // Identity and metadata are the API server's own and never pruned.
  const identity = { apiVersion: {}, kind: {}, metadata: WHOLE }
  return { ...schema, properties: { ...schema.properties, ...identity } }
}

const WHOLE: Schema = { 'x-kubernetes-preserve-unknown-fields': true }

function problems(schema: Schema, object: AnyObject, old: AnyObject | undefined): Cause[] {
  const causes = validate(schema, object, ROOT)
  // Rules may rely on the shape: where that is wrong they are not asked.
  if (causes.some(({ message }) => BLOCKING.test(message))) return [...causes, UNCHECKED]
  return [...causes, ...brokenRules(rootPlace(schema, object, old))]
}

const BLOCKING = /^(Required|Unsupported|Too (long|many)|.* in body must be of type )/

const UNCHECKED: Cause = {
  field: ROOT,
  message:
    'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
}

/** At the root, rules see of metadata the name and nothing else. */
function rootPlace(schema: Schema, value: AnyObject, old: AnyObject | undefined) {
  const name: Schema = { type: 'object', properties: { name: { type: 'string' } } }
  const properties = { ...schema.properties, metadata: name }
  const previous = isFields(old) ? old : undefined
  return { schema: { ...schema, properties }, value, old: previous, path: ROOT }
}
