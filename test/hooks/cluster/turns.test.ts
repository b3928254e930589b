import t from 'tap'
import { Turns } from '../../../hooks/cluster/turns.ts'
import { NOW } from '../../builders.ts'

const after = (milliseconds: number) => new Date(NOW.getTime() + milliseconds)

t.test(
  'a turn just granted counts for everybody else, until its Job must be visible',
  async (t) => {
    const turns = new Turns()
    turns.grant('one', NOW)
    t.equal(turns.others('other', after(15_000)), 1)
    t.equal(turns.others('other', after(15_001)), 0)
  },
)

t.test('the own turn does not count', async (t) => {
  const turns = new Turns()
  turns.grant('one', NOW)
  turns.grant('two', NOW)
  t.equal(turns.others('one', NOW), 1)
  t.equal(turns.others('three', NOW), 2)
})

t.test('a turn granted again counts once, from the last time on', async (t) => {
  const turns = new Turns()
  turns.grant('one', NOW)
  turns.grant('one', after(10_000))
  t.equal(turns.others('other', after(20_000)), 1)
})
