/** Whether points of one collection fit another: vectors, sparse vectors and sharding. Pure. */
import { isPlain, own, type Plain } from '../../crds/rules/objects.ts'

/** `config.params` of a collection. */
type Params = Plain

/** Why they do not, each in a sentence; empty when they do. The target may have more vectors. */
export function misfits(source: Params, target: Params): string[] {
  const sparse = Object.keys(sparseOf(source)).filter((name) => !(name in sparseOf(target)))
  return [
    ...denseMisfits(denseOf(source), denseOf(target)),
    ...sparse.map((name) => `sparse vector ${name} is missing in the target`),
    ...shardingMisfits(methodOf(source), methodOf(target)),
  ]
}

/** `auto` or `custom`. */
export function methodOf(params: Params): string {
  const method = params['sharding_method']
  return typeof method === 'string' ? method : 'auto'
}

function denseMisfits(source: Plain, target: Plain): string[] {
  return Object.entries(source).flatMap(([name, vector]) => {
    const called = name === '' ? 'the unnamed vector' : `vector ${name}`
    const other = own(target, name)
    return other === undefined
      ? [`${called} is missing in the target`]
      : vectorMisfits(called, vector, other)
  })
}

function vectorMisfits(called: string, source: unknown, target: unknown): string[] {
  const differ = (field: string, unset?: unknown) => {
    const [one, other] = [own(source, field) ?? unset, own(target, field) ?? unset]
    return JSON.stringify(one) === JSON.stringify(other) ? [] : [[one, other]]
  }
  const say = (what: string, pairs: unknown[][]) =>
    pairs.map(
      ([one, other]) => `${called} has ${what} ${shown(one)}, in the target ${shown(other)}`,
    )
  return [
    ...say('size', differ('size')).map((words) => `dimension error: ${words}`),
    ...say('distance', differ('distance')),
    ...say('datatype', differ('datatype', 'float32')),
    ...say('multivector', differ('multivector_config')),
  ]
}

function shardingMisfits(source: string, target: string): string[] {
  if (source === target) return []
  return [`its sharding is ${source}, in the target ${target}`]
}

function shown(value: unknown): string {
  if (value === undefined) return 'none'
  return typeof value === 'string' ? value : JSON.stringify(value)
}

/** By name; the one unnamed vector under the empty name. */
function denseOf({ vectors }: Params): Plain {
  if (!isPlain(vectors)) return {}
  return typeof vectors['size'] === 'number' ? { '': vectors } : vectors
}

function sparseOf({ sparse_vectors: sparse }: Params): Plain {
  return isPlain(sparse) ? sparse : {}
}
