/** Schemas without their limits, for resources that an older or another schema admitted. */
import { Kind, OptionalKind, Type, type TObject, type TSchema } from '@sinclair/typebox'

/** The same fields and types, with any value. */
export function lenientSchema(schema: TSchema): TSchema {
  const { properties, items, patternProperties } = schema as TSchema & CompositeSchema
  switch (schema[Kind]) {
    case 'Object':
      return Type.Object(
        Object.fromEntries(
          Object.entries(properties).map(([name, field]) => [name, lenientField(field)]),
        ),
      )
    case 'Array':
      return Type.Array(lenientSchema(items))
    case 'Record':
      return lenientRecord(Object.values(patternProperties)[0] ?? Type.Unknown())
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

/** Only the named fields are checked: the others may have any type or be missing. */
export function lenientFields({ properties }: TObject, names: readonly string[]): TObject {
  return Type.Object(
    Object.fromEntries(
      names.flatMap((name) => {
        const field = properties[name]
        return field === undefined ? [] : [[name, lenientField(field)]]
      }),
    ),
  )
}

interface CompositeSchema {
  properties: Record<string, TSchema>
  items: TSchema
  patternProperties: Record<string, TSchema>
}

function lenientField(field: TSchema): TSchema {
  return OptionalKind in field ? Type.Optional(lenientSchema(field)) : lenientSchema(field)
}

/** With any key, even one with line breaks. */
function lenientRecord(values: TSchema): TSchema {
  return Type.Record(Type.String({ pattern: '^[^]*$' }), lenientSchema(values))
}
