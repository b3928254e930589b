/** What every answer of a hook promises, whatever it was asked. */
import type { Resource } from '../../crds/crd.ts'
import { readAnswer, SyncAnswer } from '../world/loop/answer.ts'

/** A promise was broken: a defect. */
export class Broken extends Error {}

export interface HookCall {
  resource: Resource
  hook: 'sync' | 'finalize' | 'customize'
  body: unknown
  /** No Metacontroller would ask this: the guard may have to keep the answer back. */
  hostile?: boolean
}

export interface Answer {
  status: number
  text: string
  /** By the clock. */
  seconds: number
  /** Of the CPU, where the hook runs in this process. */
  cpuSeconds?: number
  /** What the service logged meanwhile. */
  said: Record<string, unknown>[]
}

export interface Judged {
  answer: Answer
  /** Of a sync or finalize that was answered with one. */
  decision: SyncAnswer | undefined
  isAskedAgain: boolean
}

const LIMIT_SECONDS = 5

/**
 * Asks, and throws `Broken` with what is wrong in the answer. One that the clock calls late is judged as any other;
 * then the hook is asked once more, because the clock does not stop while the machine does.
 */
export async function judged(call: HookCall, ask: () => Promise<Answer>): Promise<Judged> {
  const answer = await ask()
  const decision = checkAnswer(call, answer)
  const { cpuSeconds = 0 } = answer
  if (cpuSeconds >= LIMIT_SECONDS) throw new Broken(`${call.hook} took ${cpuSeconds} s of the CPU`)
  if (!isLate(answer)) return { answer, decision, isAskedAgain: false }
  const again = await ask()
  checkAnswer(call, again)
  if (isLate(again)) throw new Broken(`${call.hook} took ${answer.seconds} and ${again.seconds} s`)
  return { answer, decision, isAskedAgain: true }
}

function isLate({ seconds }: Answer): boolean {
  return seconds >= LIMIT_SECONDS
}

/** What was read of a decision. */
function checkAnswer(call: HookCall, answer: Answer): SyncAnswer | undefined {
  const { hook } = call
  const { said } = answer
  switch (answer.status) {
    case 200:
      return hook === 'customize' ? undefined : checkChildren(call, answer)
    case 400:
      // What is refused is refused with the place that is wrong.
      if (/"error":"body(\/[^:]*)?: ./.test(answer.text)) return undefined
      throw new Broken(`${hook} names no field: ${answer.text}`)
    case 429:
      return undefined
    default: {
      // A warning, such as a lost Event, is not the cause of the failure.
      const failure = said.find(({ err, level }) => err !== undefined && ERRORS.includes(level))
      const error = failure?.['err'] as Logged | undefined
      // Its stack is logged once for each resource; the answer names it each time.
      if (call.hostile === true && /internal error: InvalidAnswer/.test(answer.text))
        return undefined
      throw new Broken(`${hook} answered ${answer.status}: ${error?.stack ?? answer.text}`)
    }
  }
}

/** Levels of what went wrong, as pino and as a pod writes them. */
const ERRORS: unknown[] = [50, 60, 'ERROR', 'FATAL']
const LEVELS = ERRORS.map((level) => JSON.stringify(level)).join('|')
/** In what the service and the loop say. */
const FAILED = new RegExp(`hook failed|"level":(${LEVELS})`)
/** Calls have their limits in the machine's time, whatever time the world has. */
const TOO_LATE = /hook failed: .*(aborted due to timeout|got no answer)/

/**
 * Throws `Broken` when a hook failed. A call can exceed its deadline because the machine was paused; the loop
 * retries the call, and the result of the retry decides. Returns how many calls were late.
 */
export async function checkNews(news: string[], again: () => Promise<string[]>): Promise<number> {
  const failed = news.filter((line) => FAILED.test(line))
  const broken = failed.find((line) => !TOO_LATE.test(line))
  if (broken !== undefined) throw new Broken(broken.slice(0, 2000))
  if (failed.length === 0) return 0
  const still = (await again()).find((line) => FAILED.test(line))
  if (still !== undefined) throw new Broken(still.slice(0, 2000))
  return failed.length
}

interface Logged {
  type?: string
  stack?: string
}

interface Named {
  kind?: unknown
  metadata?: { name?: unknown }
}

function checkChildren({ hook, body }: HookCall, { text, said }: Answer): SyncAnswer {
  const answer = readAnswer(text, SyncAnswer, true)
  const { children, status } = answer
  if (!Array.isArray(children) || status == null) throw new Broken(`${hook}: ${text}`)
  const retained = new Set((children as Named[]).map(nameOf))
  for (const line of said) {
    if (line['msg'] === 'deleting child')
      retained.add(`${String(line['kind'])}/${String(line['name'])}`)
  }
  const observed = (body as { children: Record<string, Record<string, Named>> }).children
  for (const child of Object.values(observed).flatMap((objects) => Object.values(objects))) {
    if (!retained.has(nameOf(child))) throw new Broken(`${hook} loses ${nameOf(child)}`)
  }
  return answer
}

function nameOf({ kind, metadata }: Named): string {
  return `${String(kind)}/${String(metadata?.name)}`
}
