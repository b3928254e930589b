/** Every state that the keys of a small cluster can reach while they are rotated. */
import t from 'tap'
import { explore } from './explore.ts'
import { keyModel, KEY_WORLDS } from './keys.ts'

const [[smallest, world] = []] = Object.entries(KEY_WORLDS)

t.test(`${smallest}: no promised key is refused, and one key is left in the end`, async (t) => {
  if (world === undefined) throw new Error('there is no world')
  const { states, isWhole, wrong, deadEnds } = await explore(keyModel(world))
  t.comment(`${states} states`)
  t.ok(isWhole)
  t.strictSame([wrong, deadEnds], [[], []])
})

t.test('nodes that lose a promised key, and a rotation that does not end, are found', async (t) => {
  if (world === undefined) throw new Error('there is no world')
  const model = keyModel(world)
  const forgetful = await explore({
    ...model,
    // Enough for a promise to be broken.
    start: { ...world, left: { ...world.left, deaths: 0 } },
    steps: (from) => [
      ...model.steps(from),
      {
        name: 'a node loses its keys',
        take: async ({ pods: [pod] }) => void (pod && (pod.accepts = [])),
      },
    ],
  })
  t.match(forgetful.wrong.join('\n'), /the published key is refused/)
  const stopped = await explore({
    ...model,
    steps: (from) => model.steps(from).filter(({ name }) => name !== 'the Job reports'),
  })
  t.ok(stopped.deadEnds.length > 0)
})
