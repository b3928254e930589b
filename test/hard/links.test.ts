/** The forwarders: what passes, what a cut holds back, and how slow a slow link is. */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import t, { type Test } from 'tap'
import { Link } from './links.ts'

/** A server that sends back what it gets, and a link to it. */
async function scene(t: Test, tagOf?: (near: Socket) => string) {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => undefined)
    socket.pipe(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const link = await Link.open({ host: '127.0.0.1', port }, {}, tagOf)
  t.teardown(async () => {
    await link.close()
    server.close()
  })
  const dial = () => {
    const socket = connect({ host: '127.0.0.1', port: link.port, allowHalfOpen: true })
    socket.on('error', () => undefined)
    t.teardown(() => socket.destroy())
    return socket
  }
  return { link, dial, server }
}

t.test('bytes pass in both directions, whole and in order', async (t) => {
  const { dial } = await scene(t)
  const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, n) => n % 251))
  const socket = dial()
  socket.end(bytes)
  t.ok((await buffer(socket)).equals(bytes))
})

t.test(
  'what is sent over a cut link arrives once it is repaired, and nothing before',
  async (t) => {
    const { link, dial } = await scene(t)
    const socket = dial()
    await once(socket, 'connect')
    link.set('', { cut: true })
    let heard = ''
    socket.on('data', (chunk: Buffer) => (heard += chunk.toString()))
    socket.write('hello')
    // Another connection is accepted, as by a peer that does not know: nothing comes back on it either.
    const other = dial()
    other.end('again')
    // A turn through the kernel and back: long enough for a link that is whole.
    const { dial: whole } = await scene(t)
    const measure = whole()
    measure.end('whole')
    t.equal(await text(measure), 'whole')
    t.equal(heard, '')
    link.set('')
    t.equal(await text(other), 'again')
    if (heard === '') await once(socket, 'data')
    t.equal(heard, 'hello')
  },
)

t.test('a slow link is whole, and later than one that is not slow', async (t) => {
  const names = ['slow', 'quick']
  const { link, dial } = await scene(t, () => names.shift() ?? '')
  link.set('slow', { rate: 400_000 })
  const ended: string[] = []
  const send = async (name: string) => {
    const socket = dial()
    await once(socket, 'connect')
    socket.end(Buffer.alloc(100_000, name))
    const { length } = await buffer(socket)
    ended.push(`${name} ${length}`)
  }
  const slow = send('slow')
  await send('quick')
  await slow
  t.strictSame(ended, ['quick 100000', 'slow 100000'])
})

t.test('a condition meets only the connections of its name', async (t) => {
  const names = ['one', 'two']
  const { link, dial } = await scene(t, () => names.shift() ?? '')
  link.set('one', { cut: true })
  const first = dial()
  await once(first, 'connect')
  first.end('from one')
  const second = dial()
  second.end('from two')
  t.equal(await text(second), 'from two')
  link.set('one')
  t.equal(await text(first), 'from one')
})

t.test('a connection ends with the process behind it', async (t) => {
  const { link, dial } = await scene(t)
  const socket = dial()
  await once(socket, 'connect')
  socket.resume()
  const closed = once(socket, 'end')
  link.drop()
  await closed
  t.pass('the end arrives')
})
