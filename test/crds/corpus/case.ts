/** One line of the corpus: an object the API server must accept, or must refuse and say why. */
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import type { RESOURCES } from '../../../crds/crd.ts'

export type KindName = (typeof RESOURCES)[number]['kind']
export type Fields = Record<string, unknown>

export interface Case {
  /** A sentence, of the specification where it has one. */
  title: string
  kind: KindName
  object: AnyObject
  /** What is stored before: the object is then an update of it. */
  old?: AnyObject
  /** Absent: it must be accepted. */
  refused?: { field?: string; message: string }
}

/** A rule, by an object that obeys it and one that breaks it. */
export interface Pair {
  title: string
  /** Fields of spec, over those of the kind's smallest object; undefined takes one away. */
  accepted: Fields
  refused: Fields
  because: string
  /** Path of the field the cause names. */
  field?: string
  /** Fields of spec of the object that both are updates of. */
  from?: Fields
  /** metadata.name of the object that is rejected. */
  refusedName?: string
  acceptedName?: string
}

export function object(kind: KindName, spec: Fields, name = 'sample'): AnyObject {
  const resource = { apiVersion: API_VERSION, kind, metadata: { name }, spec }
  return JSON.parse(JSON.stringify(resource)) as AnyObject
}

/** Both cases of each pair; `smallest` is the least spec of the kind. */
export function pairCases(kind: KindName, smallest: Fields, pairs: Pair[]): Case[] {
  return pairs.flatMap((pair) => {
    const make = (fields: Fields, name?: string) => object(kind, { ...smallest, ...fields }, name)
    const old = pair.from === undefined ? {} : { old: make(pair.from) }
    const { because: message, field } = pair
    return [
      {
        title: `${kind}: ${pair.title}`,
        kind,
        object: make(pair.accepted, pair.acceptedName),
        ...old,
      },
      {
        title: `${kind}: ${pair.title}, else it is refused`,
        kind,
        object: make(pair.refused, pair.refusedName),
        ...old,
        refused: { message, ...(field !== undefined && { field }) },
      },
    ]
  })
}
