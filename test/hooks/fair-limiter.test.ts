import t from 'tap'
import { FairLimiter } from '../../hooks/fair-limiter.ts'

/** Calls that run until the test ends them. */
function stage(max: number) {
  const limiter = new FairLimiter(max)
  const running: string[] = []
  const ends = new Map<string, PromiseWithResolvers<undefined>>()
  const start = (key: string | undefined, name: string, signal = new AbortController().signal) => {
    const end = Promise.withResolvers<undefined>()
    ends.set(name, end)
    return limiter.run(key, signal, async () => {
      running.push(name)
      await end.promise.finally(() => running.splice(running.indexOf(name), 1))
      return name
    })
  }
  const settle = () => new Promise((resolve) => setImmediate(resolve))
  const end = async (name: string) => {
    ends.get(name)?.resolve(undefined)
    await settle()
  }
  const fail = async (name: string) => {
    ends.get(name)?.reject(new Error(name))
    await settle()
  }
  return { start, end, fail, running, settle }
}

t.test('calls run up to the limit, and one for each key', async (t) => {
  const { start, end, running, settle } = stage(2)
  const calls = [start('a', 'a1'), start('a', 'a2'), start('b', 'b1'), start('c', 'c1')]
  await settle()
  t.strictSame(running, ['a1', 'b1'])
  await end('b1')
  t.strictSame(running, ['a1', 'c1'], 'a2 waits for its key, and c1 does not wait for it')
  await end('a1')
  t.strictSame(running, ['c1', 'a2'])
  await end('c1')
  await end('a2')
  t.strictSame(await Promise.all(calls), ['a1', 'a2', 'b1', 'c1'])
  t.strictSame(running, [])
})

t.test('calls of one key start in the order of their arrival', async (t) => {
  const { start, end, running, settle } = stage(5)
  const calls = ['a1', 'a2', 'a3'].map((name) => start('a', name))
  await settle()
  for (const name of ['a1', 'a2', 'a3']) {
    t.strictSame(running, [name])
    await end(name)
  }
  await Promise.all(calls)
})

t.test('the next call starts after one that fails', async (t) => {
  const { start, end, fail, running } = stage(1)
  const failing = start('a', 'a1')
  const next = start('b', 'b1')
  const rejected = t.rejects(failing, { message: 'a1' })
  await fail('a1')
  await rejected
  t.strictSame(running, ['b1'])
  await end('b1')
  t.equal(await next, 'b1')
})

t.test('a call whose signal aborts leaves the queue and does not run', async (t) => {
  const { start, end, running } = stage(1)
  const abort = new AbortController()
  const first = start('a', 'a1')
  const aborted = start('b', 'b1', abort.signal)
  const last = start('c', 'c1')
  const rejected = t.rejects(aborted, { message: 'ended' })
  abort.abort(new Error('ended'))
  await rejected
  await end('a1')
  t.strictSame(running, ['c1'])
  await end('c1')
  await Promise.all([first, last])
  await t.rejects(start('d', 'd1', abort.signal), { message: 'ended' })
  t.strictSame(running, [])
})

t.test('calls without a key are limited only in all', async (t) => {
  const { start, end, running, settle } = stage(2)
  const calls = ['1', '2', '3'].map((name) => start(undefined, name))
  await settle()
  t.strictSame(running, ['1', '2'])
  await end('1')
  t.strictSame(running, ['2', '3'])
  await end('2')
  await end('3')
  t.strictSame(await Promise.all(calls), ['1', '2', '3'])
})
