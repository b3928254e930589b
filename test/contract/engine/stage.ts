/** Where one case is played: calls on the nodes of a subject, and what they answered, noted. */
import { setTimeout as delay } from 'node:timers/promises'
import { normal } from './normal.ts'
import type { Setting, Subject } from './subject.ts'

export interface CallOptions {
  body?: unknown
  /** Ordinal of the node that is asked. */
  node?: number
  /** Full key when there is one; null sends none. */
  key?: string | null
  headers?: Record<string, string>
}

export interface Answer {
  status: number
  /** Parsed where it is JSON. */
  body: unknown
  type: string
}

const POLL_MS = 5
const TIMEOUT_MS = 5_000

export class Stage {
  readonly size: Setting['size']
  readonly notes: Record<string, unknown>[] = []
  readonly #subject: Subject
  readonly #key: string | undefined
  readonly #peers = new Map<number, string>()

  constructor(subject: Subject, setting: Setting) {
    this.#subject = subject
    this.size = setting.size
    this.#key =
      setting.env?.['QDRANT__SERVICE__API_KEY'] ??
      setting.service.api_key ??
      setting.service.read_only_api_key
  }

  get nodes(): number {
    return this.#subject.urls.length
  }

  /** Calls and notes what was answered. */
  async call(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const answer = await this.ask(method, path, options)
    this.#noteCall(method, path, options, answer)
    return answer
  }

  /** Calls until the answer has the quality, and notes that one: writes show after a moment. */
  async until(
    path: string,
    quality: (body: unknown) => boolean,
    options: CallOptions & { method?: string } = {},
  ): Promise<Answer> {
    const { method = 'GET' } = options
    const answer = await this.awaited(path, quality, options)
    this.#noteCall(method, path, options, answer)
    return answer
  }

  /** The same, and notes nothing. */
  async awaited(
    path: string,
    quality: (body: unknown) => boolean,
    options: CallOptions & { method?: string } = {},
  ): Promise<Answer> {
    const end = Date.now() + TIMEOUT_MS
    for (;;) {
      const answer = await this.ask(options.method ?? 'GET', path, options)
      if (quality(answer.body) || Date.now() > end) return answer
      await delay(POLL_MS)
    }
  }

  /** Calls and notes nothing. */
  async ask(method: string, path: string, options: CallOptions = {}): Promise<Answer> {
    const { body, node = 0, key = this.#key, headers } = options
    const response = await fetch(`${this.#subject.urls[node] ?? ''}${path}`, {
      method,
      headers: {
        ...(key != null && { 'api-key': key }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const type = (response.headers.get('content-type') ?? 'none').replace(/;.*$/, '')
    return {
      status: response.status,
      type,
      body: type === 'application/json' ? JSON.parse(text) : text,
    }
  }

  /** A file of a node. */
  async bytes(path: string, node = 0): Promise<Buffer> {
    const response = await fetch(`${this.#subject.urls[node] ?? ''}${path}`, {
      headers: { 'accept-encoding': 'identity', ...(this.#key && { 'api-key': this.#key }) },
    })
    return Buffer.from(await response.arrayBuffer())
  }

  /** Whether the response has a content length, and its content type. */
  async headers(path: string, node = 0): Promise<object> {
    const response = await fetch(`${this.#subject.urls[node] ?? ''}${path}`, {
      headers: { 'accept-encoding': 'identity', ...(this.#key && { 'api-key': this.#key }) },
    })
    await response.arrayBuffer()
    const header = (name: string) => response.headers.get(name)
    const length = header('content-length') !== null
    return { length, encoding: header('transfer-encoding'), type: header('content-type') }
  }

  /** A file as the field `snapshot` of a form. */
  async send(
    path: string,
    { file, bytes, node = 0 }: { file: string; bytes: Buffer; node?: number },
  ): Promise<Answer> {
    const form = new FormData()
    form.append('snapshot', new Blob([new Uint8Array(bytes)]), file)
    const url = `${this.#subject.urls[node] ?? ''}${path}`
    const response = await fetch(url, { method: 'POST', body: form })
    return { status: response.status, type: 'application/json', body: await response.json() }
  }

  whileDown(node: number, meanwhile: () => Promise<void>): Promise<void> {
    return this.#subject.whileDown(node, meanwhile)
  }

  note(what: string, value: unknown): void {
    this.notes.push({ [what]: this.normal(value) })
  }

  normal(value: unknown): unknown {
    return normal(value, this.#peers)
  }

  /** As learnt: the node may be down by now. */
  peerOf(node: number): number | undefined {
    return [...this.#peers].find(([, name]) => name === `<peer ${node}>`)?.[0]
  }

  /** Each peer by the ordinal of its node. */
  async learnPeers(): Promise<void> {
    for (let node = 0; node < this.nodes; node += 1) {
      const { body } = await this.ask('GET', '/cluster', { node })
      const peer = (body as { result: { peer_id?: number } }).result.peer_id
      if (peer !== undefined) this.#peers.set(peer, `<peer ${node}>`)
    }
  }

  /** Nothing is left for the next case. */
  async clear(): Promise<void> {
    const { body } = await this.ask('GET', '/collections')
    const { collections } = (body as { result: { collections: { name: string }[] } }).result
    for (const { name } of collections) {
      for (let node = 0; node < this.nodes; node += 1) await this.#clearSnapshots(name, node)
      await this.ask('DELETE', `/collections/${encodeURIComponent(name)}`)
    }
    for (let node = 0; node < this.nodes; node += 1) {
      const end = Date.now() + TIMEOUT_MS
      while (Date.now() < end) {
        const left = await this.ask('GET', '/collections', { node })
        if (JSON.stringify(left.body).includes('"collections":[]')) break
        await delay(POLL_MS)
      }
    }
  }

  /** Their files would stay, and be those of the next collection with this name. */
  async #clearSnapshots(collection: string, node: number): Promise<void> {
    const path = `/collections/${encodeURIComponent(collection)}/snapshots`
    const { body } = await this.ask('GET', path, { node })
    const { result } = body as { result?: { name: string }[] | null }
    for (const { name } of result ?? []) {
      await this.ask('DELETE', `${path}/${encodeURIComponent(name)}`, { node })
    }
  }

  #noteCall(method: string, path: string, { body, node }: CallOptions, answer: Answer): void {
    this.notes.push({
      call: `${method} ${path}${node ? ` on node ${node}` : ''}`,
      ...(body !== undefined && { with: body }),
      status: answer.status,
      ...(answer.type !== 'application/json' && { type: answer.type }),
      answer: this.normal(answer.body),
    })
  }
}
