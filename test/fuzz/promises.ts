/** What every answer of a hook promises, whatever it was asked. */
import type { Resource } from '../../crds/resources.ts'
import { readAnswer, SyncAnswer } from '../world/loop/answer.ts'

/** A promise was broken: a defect. */
export class Broken extends Error {}

export interface HookCall {
  resource: Resource
  hook: 'sync' | 'finalize' | 'customize'
  body: unknown
  /** What the service logged meanwhile. */
  said: Record<string, unknown>[]
  /** No Metacontroller would ask this: the guard may have to keep the answer back. */
  hostile?: boolean
}

export interface Answer {
  status: number
  text: string
  seconds: number
}

const LIMIT_SECONDS = 5

/** By the clock it took too long. Who was made to wait meanwhile is asked once more. */
export function isLate({ seconds }: Answer): boolean {
  return seconds >= LIMIT_SECONDS
}

/** Throws `Broken` with what is wrong; answers with what was read of a decision. */
export function checkAnswer(call: HookCall, answer: Answer): SyncAnswer | undefined {
  const { hook, said } = call
  if (isLate(answer)) throw new Broken(`${hook} took ${answer.seconds} s`)
  switch (answer.status) {
    case 200:
      return hook === 'customize' ? undefined : checkChildren(call, answer.text)
    case 400:
      // What is refused is refused with the place that is wrong.
      if (/"error":"body(\/[^:]*)?: ./.test(answer.text)) return undefined
      throw new Broken(`${hook} names no field: ${answer.text}`)
    case 429:
      return undefined
    default: {
      const error = said.find(({ err }) => err !== undefined)?.['err'] as Logged | undefined
      if (call.hostile === true && error?.type === 'GuardRefusal') return undefined
      throw new Broken(`${hook} answered ${answer.status}: ${error?.stack ?? answer.text}`)
    }
  }
}

interface Logged {
  type?: string
  stack?: string
}

interface Named {
  kind?: unknown
  metadata?: { name?: unknown }
}

function checkChildren({ hook, body, said }: HookCall, text: string): SyncAnswer {
  const answer = readAnswer(text, SyncAnswer, true)
  const { children, status } = answer
  if (!Array.isArray(children) || status == null) throw new Broken(`${hook}: ${text}`)
  const kept = new Set((children as Named[]).map(nameOf))
  for (const line of said) {
    if (line['msg'] === 'child dropped') kept.add(`${String(line['kind'])}/${String(line['name'])}`)
  }
  const shown = (body as { children: Record<string, Record<string, Named>> }).children
  for (const child of Object.values(shown).flatMap((objects) => Object.values(objects))) {
    if (!kept.has(nameOf(child))) throw new Broken(`${hook} loses ${nameOf(child)}`)
  }
  return answer
}

function nameOf({ kind, metadata }: Named): string {
  return `${String(kind)}/${String(metadata?.name)}`
}
