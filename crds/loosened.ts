/** Schemas without their limits: for resources that an older or another schema admitted. */
import { Kind, OptionalKind, Type, type TObject, type TSchema } from '@sinclair/typebox'

/** The same fields and types, whatever their values. */
export function loosened(schema: TSchema): TSchema {
  const { properties, items, patternProperties } = schema as TSchema & Composite
  switch (schema[Kind]) {
    case 'Object':
      return Type.Object(
        Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, of(field)])),
      )
    case 'Array':
      return Type.Array(loosened(items))
    case 'Record':
      return recordOf(Object.values(patternProperties)[0] ?? Type.Unknown())
    case 'Integer':
    case 'Number':
      return Type.Number()
    case 'String':
    case 'Literal':
      return Type.String()
    case 'Boolean':
      return Type.Boolean()
    case 'Union':
      return schema['x-kubernetes-int-or-string'] === true
        ? Type.Union([Type.Number(), Type.String()])
        : Type.String()
    default:
      return Type.Unknown()
  }
}

/** The named fields alone: the others may have any type, or be missing. */
export function loosenedFields({ properties }: TObject, names: readonly string[]): TObject {
  return Type.Object(
    Object.fromEntries(
      names.flatMap((name) => {
        const field = properties[name]
        return field === undefined ? [] : [[name, of(field)]]
      }),
    ),
  )
}

interface Composite {
  properties: Record<string, TSchema>
  items: TSchema
  patternProperties: Record<string, TSchema>
}

function of(field: TSchema): TSchema {
  return OptionalKind in field ? Type.Optional(loosened(field)) : loosened(field)
}

/** Under whatever key, with line breaks or not. */
function recordOf(values: TSchema): TSchema {
  return Type.Record(Type.String({ pattern: '^[^]*$' }), loosened(values))
}
