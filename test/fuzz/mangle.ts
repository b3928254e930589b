/** Damage to a JSON value, anywhere in it. */
import fc from 'fast-check'
import { anyJson } from './value.ts'

/** A way into a value, each step by the number of a key, and what is put there; nothing takes away. */
export interface Damage {
  walk: number[]
  to?: unknown
}

export const damages: fc.Arbitrary<Damage[]> = fc.array(
  fc.record(
    { walk: fc.array(fc.nat(20), { minLength: 1, maxLength: 8 }), to: anyJson },
    { requiredKeys: ['walk'], noNullPrototype: true },
  ),
  { maxLength: 3 },
)

export function damaged(value: unknown, all: Damage[]): unknown {
  return all.reduce<unknown>((whole, { walk, to }) => mangle(whole, walk, to) ?? {}, value)
}

function mangle(value: unknown, walk: number[], to: unknown): unknown {
  const [step, ...rest] = walk
  if (step === undefined || typeof value !== 'object' || value === null) return to
  const fields = value as Record<string, unknown>
  const keys = Object.keys(fields)
  const key = keys[step % Math.max(keys.length, 1)]
  if (key === undefined) return to
  const inner = mangle(fields[key], rest, to)
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => (String(index) === key ? (inner ?? null) : item))
  }
  const others = Object.entries(fields).filter(([name]) => name !== key)
  return Object.fromEntries(inner === undefined ? others : [...others, [key, inner]])
}
