/** A TCP proxy in front of a node, which a test may stall or cut in the middle of a request. */
import { once } from 'node:events'
import { createServer, connect, type AddressInfo, type Socket } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import type { Test } from 'tap'

/** What becomes of a connection once these bytes of a request have been passed on. */
export type Disruption =
  /** Nothing more passes, in either direction. */
  | 'stall'
  /** The client is cut off; the node has got all that was sent. */
  | 'cut'
  /** Answers pass byte by byte, or nearly, until then. */
  | { slowUntil: Promise<unknown> }

/** Decides with every chunk: `text` is what came on this connection since its last request line. */
export type TrafficWatcher = (text: string) => Disruption | undefined

export interface TcpProxy {
  port: number
  /** Request lines that have passed. */
  requests: string[]
  watch(watch?: TrafficWatcher): void
}

const REQUEST_LINE = /^(?:GET|PUT|POST|PATCH|DELETE) \S+ HTTP\/1\.1\r\n/
const MAX_TEXT = 1024 * 1024
/** So much passes in so long on a slow connection. */
const SLOW_BYTES = 1024
const SLOW_MS = 100

export async function startTcpProxy(t: Test, url: string): Promise<TcpProxy> {
  const target = Number(new URL(url).port)
  const open = new Set<Socket>()
  const state = { watch: undefined as TrafficWatcher | undefined, requests: [] as string[] }
  const server = createServer((client) => {
    const node = connect(target, '127.0.0.1')
    let text = ''
    for (const [from, to] of [
      [client, node],
      [node, client],
    ] as const) {
      open.add(from)
      from.on('close', () => {
        open.delete(from)
        to.destroy()
      })
      // That the other end has gone is seen by its close.
      from.on('error', () => undefined)
    }
    node.pipe(client)
    client.on('data', (chunk: Buffer) => {
      const part = chunk.toString('latin1')
      const [line] = REQUEST_LINE.exec(part) ?? []
      if (line !== undefined) state.requests.push(line.trim())
      text = line === undefined ? (text + part).slice(-MAX_TEXT) : part
      const disruption = state.watch?.(text)
      if (disruption === undefined) {
        if (!node.write(chunk)) pauseUntilDrained(client, node)
        return
      }
      node.write(chunk, () => {
        node.unpipe(client)
        if (disruption === 'stall') client.pause()
        else if (disruption === 'cut') client.removeAllListeners('close').destroy()
        else void trickle(node, client, disruption.slowUntil)
      })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    for (const socket of open) socket.destroy()
    server.close()
  })
  return {
    port: (server.address() as AddressInfo).port,
    requests: state.requests,
    watch: (watch) => (state.watch = watch),
  }
}

async function trickle(from: Socket, to: Socket, until: Promise<unknown>): Promise<void> {
  const speed = { isSlow: true }
  const stopSlowing = until.then(() => (speed.isSlow = false))
  for await (const chunk of from) {
    const bytes = chunk as Buffer
    for (let start = 0; start < bytes.length; start += SLOW_BYTES) {
      to.write(bytes.subarray(start, start + SLOW_BYTES))
      if (speed.isSlow)
        await Promise.race([setTimeout(SLOW_MS, undefined, { ref: false }), stopSlowing])
    }
  }
}

function pauseUntilDrained(client: Socket, node: Socket): void {
  client.pause()
  node.once('drain', () => client.resume())
}

/** The last line of a form that is sent. */
export function isWholeForm(text: string): boolean {
  return (
    /^POST \S+\/snapshots\/upload\S* /.test(text) && /--vec-operator-[-0-9a-f]+--\r\n$/.test(text)
  )
}
