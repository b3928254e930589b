/**
 * Admission of a custom resource as the API server does it: prune, default, validate, rules. Used by
 * the embedded API; test/crds holds it to the real one.
 */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { clone } from '../api/json.ts'
import { brokenRules } from './cel.ts'
import { Invalid, ROOT, type Cause } from './invalid.ts'
import { fillDefaults, prune } from './prune.ts'
import { ANY, type Schema } from './structure.ts'
import { validate } from './validate.ts'

/** The parts of a CustomResourceDefinition that admission reads. */
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
  const schemas = schemasOf(spec, object.apiVersion)
  const admitted = clone(object)
  prune(schemas.whole, admitted)
  fillDefaults(schemas.whole, admitted)
  const causes = problems(schemas, admitted, old)
  if (causes.length > 0) {
    throw new Invalid(`${spec.names.kind}.${spec.group} "${object.metadata.name}"`, causes)
  }
  return admitted
}

/** What an object is held to, and what its rules see of it. */
interface Schemas {
  whole: Schema
  ruled: Schema
}

/** By the schema of a version: the same objects every time, so that what is found out about them lasts. */
const schemas = new WeakMap<Schema, Schemas>()

function schemasOf({ group, versions }: Definition['spec'], apiVersion: string): Schemas {
  const version = versions.find(({ name }) => `${group}/${name}` === apiVersion)
  if (version === undefined) throw new Error(`the CRD has no version ${apiVersion}`)
  const schema = version.schema?.openAPIV3Schema ?? ANY
  const found = schemas.get(schema) ?? rootSchemas(schema)
  schemas.set(schema, found)
  return found
}

function rootSchemas(schema: Schema): Schemas {
  const { properties } = schema
  // Identity and metadata are the API server's own and never pruned.
  const identity = { apiVersion: ANY, kind: ANY, metadata: WHOLE }
  // At the root, rules see of metadata the name and nothing else.
  const name: Schema = { type: 'object', properties: { name: { type: 'string' } } }
  return {
    whole: { ...schema, properties: { ...properties, ...identity } },
    ruled: { ...schema, properties: { ...properties, ...identity, metadata: name } },
  }
}

const WHOLE: Schema = { 'x-kubernetes-preserve-unknown-fields': true }

function problems(
  { whole, ruled }: Schemas,
  object: AnyObject,
  old: AnyObject | undefined,
): Cause[] {
  const causes = validate(whole, object, ROOT)
  // Rules may rely on the shape: where that is wrong they are not asked.
  if (causes.some(({ message }) => BLOCKING.test(message))) return [...causes, UNCHECKED]
  return [...causes, ...brokenRules({ schema: ruled, value: object, old, path: ROOT })]
}

const BLOCKING = /^(Required|Unsupported|Too (long|many)|.* in body must be of type )/

const UNCHECKED: Cause = {
  field: ROOT,
  message:
    'Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation',
}
