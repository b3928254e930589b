/** Scenarios that disturb for long go on once those that disturb in passing are done. */
import { setImmediate } from 'node:timers/promises'
import t from 'tap'
import { Stages } from './stages.ts'

t.test('a long absence starts once every scenario that has begun is calm', async (t) => {
  const stages = new Stages()
  const steps: string[] = []
  const enter = (name: string) => stages.enter(() => steps.push(`${name} is calm`))
  const [one, other] = [enter('one'), enter('other')]
  const both = ['long', 'longer'].map(async (name) => {
    await enter(name).quiet()
    steps.push(`${name} goes on`)
  })
  one.calm()
  one.calm()
  await setImmediate()
  t.strictSame(steps, ['one is calm', 'one is calm'])
  other.calm()
  await Promise.all(both)
  t.strictSame(steps.slice(2), ['other is calm', 'long goes on', 'longer goes on'])
})

t.test('who is there alone need not wait', async (t) => {
  const stages = new Stages()
  let calmed = 0
  const stage = stages.enter(() => (calmed += 1))
  await stage.quiet()
  stage.calm()
  t.equal(calmed, 1)
})
