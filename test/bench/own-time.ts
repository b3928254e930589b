/**
 * Loaded into the service before its main, compiled as that is: what strips types would be a tenth of
 * its heap. Notes of each hook how long it was waited for and how much of that an engine had the word.
 * The rest is the service's own, what a hook waits for others included. Instants are those of the
 * machine's monotonic clock, which all its processes share.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { IncomingHttpHeaders } from 'node:http'
import { monotonic, SENT_AT } from './instants.ts'

/** In milliseconds. */
export interface HookTime {
  /** From the request's sending to the answer's. */
  all: number
  /** Of that, while a call of this hook lay with an engine. */
  engine: number
  /** How many those calls were. */
  calls: number
}

interface Span {
  from: number
  to: number
}

interface Hook {
  sentAt: number
  spans: Span[]
}

const hooks = new AsyncLocalStorage<Hook>()
const open = new WeakMap<object, Hook>()
/** Engine calls without a response. */
const asked = new WeakMap<object, { hook: Hook; from: number }>()
let noted: HookTime[] = []

/** The fields of Node's and undici's channel messages that are read here. */
interface Message {
  request: { headers: IncomingHttpHeaders; path: string }
  response: { headers: Buffer[] }
}

function on(channel: string, listener: (message: Message) => void): void {
  subscribe(channel, (message) => listener(message as Message))
}

/** Starts taking notes, and hands them out to who asks through the channel to the parent process. */
function watch(): void {
  on('http.server.request.start', ({ request }) => {
    const sentAt = Number(request.headers[SENT_AT])
    if (Number.isNaN(sentAt)) return
    const hook = { sentAt, spans: [] }
    open.set(request, hook)
    hooks.enterWith(hook)
  })
  on('http.server.response.finish', ({ request }) => {
    const hook = open.get(request)
    if (hook !== undefined) noted.push(timeOf(hook, monotonic()))
  })
  on('undici:request:create', ({ request }) => {
    const hook = hooks.getStore()
    if (hook !== undefined && request.path.includes('/proxy/'))
      asked.set(request, { hook, from: 0 })
  })
  on('undici:client:sendHeaders', ({ request }) => {
    const call = asked.get(request)
    if (call !== undefined) call.from = monotonic()
  })
  on('undici:request:headers', ({ request, response }) => {
    const call = asked.get(request)
    if (call === undefined) return
    // From here on it waits for us: what we take to read the answer is ours.
    const to = headerOf(response.headers, SENT_AT)
    call.hook.spans.push({ from: call.from, to: Number(to) })
  })
  process.on('message', () => {
    process.send?.(noted)
    noted = []
  })
  process.channel?.unref()
}

function headerOf(raw: Buffer[], name: string): string {
  const at = raw.findIndex((text, index) => index % 2 === 0 && String(text).toLowerCase() === name)
  return String(raw[at + 1])
}

function timeOf({ sentAt, spans }: Hook, now: number): HookTime {
  const sorted = spans.toSorted((one, other) => one.from - other.from)
  let engine = 0
  let until = sentAt
  for (const { from, to } of sorted) {
    engine += Math.max(0, to - Math.max(from, until))
    until = Math.max(until, to)
  }
  return { all: (now - sentAt) / 1e6, engine: engine / 1e6, calls: spans.length }
}

watch()
