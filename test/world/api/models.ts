/**
 * Fields and types of the built-in kinds, from Kubernetes' OpenAPI as the models of @kubernetes/client-node have it.
 * They are of a newer Kubernetes than the API server of test/cluster: a field that is new there is known here.
 */

export interface Field {
  name: string
  type: string
  /** `int32`, `int64`, `double`, `date-time`, or nothing. */
  format: string
}

interface Model {
  attributeTypeMap?: { baseName: string; type: string; format: string }[]
}

const FOLDER = '@kubernetes/client-node/dist/gen/models'
/** Kinds whose model has another name than `V1` and the kind. */
const NAMES: Record<string, string> = { Event: 'CoreV1Event' }
const MODELS = new Map<string, Map<string, Field>>()

/** The name of the model of a built-in kind. */
export function modelOf(kind: string): string {
  return NAMES[kind] ?? `V1${kind}`
}

/** The fields of a model by name; undefined where the type is no model. */
export function fieldsOf(model: string): ReadonlyMap<string, Field> | undefined {
  return MODELS.get(model)
}

/** Reads the models of these kinds and those that they refer to. */
export async function loadModels(kinds: readonly string[]): Promise<void> {
  await Promise.all(kinds.map((kind) => load(modelOf(kind))))
}

async function load(name: string): Promise<void> {
  if (MODELS.has(name)) return
  const fields = new Map<string, Field>()
  MODELS.set(name, fields)
  const module = (await import(`${FOLDER}/${name}.js`)) as Record<string, Model>
  for (const { baseName, type, format } of module[name]?.attributeTypeMap ?? []) {
    fields.set(baseName, { name: baseName, type, format })
  }
  const types = [...fields.values()].flatMap(({ type }) => /\w*V\d\w+/.exec(type) ?? [])
  await Promise.all(types.filter((type) => !TIMES.has(type)).map(load))
}

/** Types that are text on the wire. */
export const TIMES: ReadonlySet<string> = new Set(['Date', 'V1MicroTime'])
