/** Whether an answer has the shape it should have. Each schema is compiled once, for all calls. */
import type { TSchema } from '@sinclair/typebox'
import { TypeCompiler, type TypeCheck } from '@sinclair/typebox/compiler'

/** A field by its JSON pointer, and what is wrong with it; never its value, which may be secret. */
export interface Flaw {
  path: string
  message: string
}

const compiled = new WeakMap<TSchema, TypeCheck<TSchema>>()

/** The first field that is not as the schema says; undefined where all are. */
export function flawIn(schema: TSchema, value: unknown): Flaw | undefined {
  const check = compiled.get(schema) ?? TypeCompiler.Compile(schema)
  compiled.set(schema, check)
  return check.Check(value) ? undefined : check.Errors(value).First()
}
