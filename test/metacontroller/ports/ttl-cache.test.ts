import t from 'tap'
import { ttlCache } from '../../../metacontroller/ports/ttl-cache.ts'

function memory(answers: (string | undefined | Error)[]) {
  const state = { now: new Date(0), asked: [] as string[] }
  const read = ttlCache(
    async (namespace: string, name: string) => {
      state.asked.push(`${namespace}/${name}`)
      const answer = answers[state.asked.length - 1]
      if (answer instanceof Error) throw answer
      return answer
    },
    60,
    () => state.now,
  )
  return { state, read }
}

t.test('an answer is good for its time and asked for again after it', async (t) => {
  const { state, read } = memory(['one', 'two'])
  t.equal(await read('ns', 'a'), 'one')
  state.now = new Date(59_999)
  t.equal(await read('ns', 'a'), 'one')
  state.now = new Date(60_000)
  t.equal(await read('ns', 'a'), 'two')
})

t.test('every key has its own answer', async (t) => {
  const { state, read } = memory(['one', 'two', 'three'])
  t.strictSame(
    [await read('ns', 'a'), await read('ns', 'b'), await read('n', 'sa'), await read('ns', 'a')],
    ['one', 'two', 'three', 'one'],
  )
  t.strictSame(state.asked, ['ns/a', 'ns/b', 'n/sa'])
})

t.test('past its capacity the oldest answers are asked for again', async (t) => {
  const asked: string[] = []
  const load = async (name: string) => {
    asked.push(name)
    return name.repeat(10)
  }
  const capacity = { max: 20, sizeOf: (text: string) => text.length }
  const read = ttlCache(load, 60, () => new Date(0), capacity)
  for (const name of ['a', 'b', 'b', 'a', 'c', 'b', 'c', 'a']) {
    t.equal(await read(name), name.repeat(10))
  }
  t.strictSame(asked, ['a', 'b', 'c', 'a'])
})

t.test('many who ask at once are one call', async (t) => {
  const { state, read } = memory(['one'])
  t.strictSame(await Promise.all([read('ns', 'a'), read('ns', 'a')]), ['one', 'one'])
  t.strictSame(state.asked, ['ns/a'])
})

t.test('an absent object is not cached', async (t) => {
  const { read } = memory([undefined, 'there'])
  t.equal(await read('ns', 'a'), undefined)
  t.equal(await read('ns', 'a'), 'there')
})

t.test('a failure is not remembered', async (t) => {
  const { read } = memory([new Error('no route'), 'there'])
  await t.rejects(read('ns', 'a'), { message: 'no route' })
  t.equal(await read('ns', 'a'), 'there')
})

t.test('a clock that is set back does not extend the time of an answer', async (t) => {
  const { state, read } = memory(['one', 'two', 'three'])
  state.now = new Date(3_600_000)
  t.equal(await read('ns', 'a'), 'one')
  state.now = new Date(0)
  t.equal(await read('ns', 'a'), 'two')
  state.now = new Date(59_999)
  t.equal(await read('ns', 'a'), 'two')
  state.now = new Date(60_000)
  t.equal(await read('ns', 'a'), 'three')
})
