/** /collections/{c}/index: payload indexes in their normal form. */
import { ok, refuse, type EngineAnswer, type EngineRequest } from '../answers.ts'
import { CreateIndex } from '../bodies/index.ts'
import type { EngineCluster } from '../cluster.ts'
import { normalised } from '../json-path.ts'
import { isObject, readBody } from '../read.ts'
import { checkIndexes } from '../strict.ts'
import { found } from './collections.ts'

/** The index that a body asks for, and the path in its normal form. */
export function indexOf(body: unknown): { path: string; info: Record<string, unknown> } {
  const { field_name: field, field_schema: schema } = readBody(CreateIndex, body)
  const path = pathOf(String(field))
  if (schema === undefined) {
    const words = "Can't auto-detect field type, please specify `field_schema` in the request"
    refuse(400, `Bad request: ${words}`)
  }
  const type = isObject(schema) ? schema['type'] : schema
  return { path, info: { data_type: type, ...(isObject(schema) && { params: schema }), points: 0 } }
}

export function indexRoutes(
  request: EngineRequest,
  cluster: EngineCluster,
): EngineAnswer | undefined {
  const { method, path, query } = request
  const [root, name = '', part, field, ...rest] = path
  if (root !== 'collections' || part !== 'index' || rest.length > 0) return undefined
  const isPut = method === 'PUT' && field === undefined
  if (!isPut && !(method === 'DELETE' && field !== undefined)) return undefined
  if (isPut) put(request, cluster, name)
  else drop(cluster, name, field ?? '')
  const status = query['wait'] === 'true' ? 'completed' : 'acknowledged'
  return ok({ operation_id: cluster.nextOperation(), status })
}

function put({ body }: EngineRequest, cluster: EngineCluster, name: string): void {
  const index = indexOf(body)
  const collection = found(cluster, name)
  checkIndexes(collection)
  collection.payloadSchema = withIndex(collection.payloadSchema, index)
}

type Schema = Record<string, Record<string, unknown>>

/** A bare type and one with nothing but its type are the same: what is there stays. */
export function withIndex(schema: Schema, { path, info }: ReturnType<typeof indexOf>): Schema {
  const known = Object.hasOwn(schema, path) ? schema[path] : undefined
  if (known !== undefined && isSame(known, info)) return schema
  // A field may be called `__proto__`.
  return Object.fromEntries([...Object.entries(schema), [path, info]])
}

export function withoutIndex(schema: Schema, field: string): Schema {
  const path = pathOf(field)
  return Object.fromEntries(Object.entries(schema).filter(([known]) => known !== path))
}

function drop(cluster: EngineCluster, name: string, field: string): void {
  const collection = found(cluster, name)
  collection.payloadSchema = withoutIndex(collection.payloadSchema, field)
}

function pathOf(field: string): string {
  const path = normalised(field)
  if (path !== undefined) return path
  return refuse(400, `Format error in JSON body: Invalid json path: '${field}' at line 1 column 1`)
}

function isSame(one: Record<string, unknown>, other: Record<string, unknown>): boolean {
  const bare = (index: Record<string, unknown>) => {
    const params = Object.entries(index['params'] ?? {})
    const set = params.filter(
      ([name, value]) => value !== null && !(name === 'tokenizer' && value === 'word'),
    )
    return JSON.stringify([index['data_type'], ...set.filter(([name]) => name !== 'type').sort()])
  }
  return bare(one) === bare(other)
}
