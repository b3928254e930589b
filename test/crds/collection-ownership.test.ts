/** Which of several VecCollections owns a name or an alias. */
import t from 'tap'
import type { VecCollection } from '../../crds/collection.ts'
import { conflictingClaim, clusterNameOf, findOwner } from '../../crds/collection-ownership.ts'
import { ago } from '../builders.ts'
import { collection } from '../hooks/collection/stage.ts'

/** A VecCollection for the collection `docs`, created this many seconds ago. */
function claimant(
  name: string,
  seconds: number,
  parts: { aliases?: string[]; knows?: boolean } = {},
): VecCollection {
  const { aliases, knows = false } = parts
  return collection(
    { collectionName: 'docs', ...(aliases !== undefined && { aliases }) },
    { name, creationTimestamp: ago(seconds) },
    knows ? { health: 'green' } : undefined,
  )
}

const own = claimant('me', 60)

t.test('a name belongs to the resource that had it first', async (t) => {
  t.equal(findOwner(own, [own, claimant('older', 61)]), 'VecCollection ns/older')
  t.equal(findOwner(own, [own, claimant('younger', 59)]), undefined)
  t.equal(findOwner(own, [own]), undefined, 'it is no rival of its own')
  const [first, second] = [claimant('first', 90), claimant('second', 80)]
  const both = [first, second]
  for (const others of [both, both.toReversed()]) {
    t.equal(findOwner(own, others), 'VecCollection ns/first')
  }
})

t.test('a resource with another name does not conflict', async (t) => {
  const other = claimant('older', 61)
  other.spec.collectionName = 'other'
  t.equal(findOwner(own, [other]), undefined)
  const unnamed = collection({}, { name: 'docs' })
  t.equal(findOwner(unnamed, [claimant('older', 3600)]), 'VecCollection ns/older')
})

t.test(
  'of two created in the same second the one that adopted the name has it, else the lower uid',
  async (t) => {
    const [above, below] = [claimant('a', 60), claimant('z', 60)]
    t.equal(findOwner(own, [above]), 'VecCollection ns/a')
    t.equal(findOwner(own, [below]), undefined)
    t.equal(findOwner(own, [claimant('z', 60, { knows: true })]), 'VecCollection ns/z')
    const adopted = claimant('me', 60, { knows: true })
    t.equal(findOwner(adopted, [above]), undefined)
    t.equal(findOwner(adopted, [claimant('a', 60, { knows: true })]), 'VecCollection ns/a')
    t.equal(findOwner(own, [claimant('z', 59, { knows: true })]), undefined, 'a second is a second')
  },
)

t.test('an alias belongs to the resource that declares it, of several to the oldest', async (t) => {
  const aliases = ['live']
  t.equal(conflictingClaim(own, [claimant('a', 90)], 'live'), undefined)
  t.strictSame(conflictingClaim(own, [claimant('a', 90, { aliases }), own], 'live'), {
    ...{ name: 'VecCollection ns/a', isOlder: true },
  })
  t.strictSame(conflictingClaim(own, [claimant('b', 50, { aliases })], 'live'), {
    ...{ name: 'VecCollection ns/b', isOlder: false },
  })
  t.equal(conflictingClaim(own, [claimant('a', 90, { aliases })], 'other'), undefined)
  const both = [claimant('b', 50, { aliases }), claimant('a', 90, { aliases })]
  for (const others of [both, both.toReversed()]) {
    t.equal(conflictingClaim(own, others, 'live')?.name, 'VecCollection ns/a')
  }
})

t.test('a collection name of an older resource is no alias of a younger one', async (t) => {
  const taken = { name: 'VecCollection ns/a', isOlder: true, isCollection: true }
  t.strictSame(conflictingClaim(own, [claimant('a', 90)], 'docs'), taken)
  t.equal(conflictingClaim(own, [claimant('b', 50)], 'docs'), undefined, 'the older alias counts')
  const declaring = claimant('c', 120, { aliases: ['docs'] })
  declaring.spec.collectionName = 'other'
  t.strictSame(conflictingClaim(own, [declaring, claimant('a', 90)], 'docs'), taken)
})

t.test('the cluster is that of the own namespace unless another is named', async (t) => {
  t.strictSame(clusterNameOf(own), { namespace: 'ns', name: 'a' })
  const far = collection({ clusterRef: { name: 'b', namespace: 'far' } })
  t.strictSame(clusterNameOf(far), { namespace: 'far', name: 'b' })
})
