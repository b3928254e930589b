/** The tour, VecCollection: made, repaired, refused a change, filled with points, and lost. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { collectionsOf, countIn, engineOf } from './engine.ts'
import { deleteSample, GONE, referenceOf, sampleOf, type DemoContext, type Step } from './step.ts'

/** Written into books, and counted again and again. */
export const POINTS = 60

export const COLLECTION_STEPS: Step[] = [
  {
    says: 'A VecCollection in it: vectors, payload indexes and an alias, made by calls to the engine.',
    types: 'apply -f docs/samples/collection.yaml',
    sample: 'collection',
    act: (context) => context.world.apply(sampleOf(context, 'collection')),
    phases: ['Ready'],
    seconds: 300,
  },
  {
    says: 'An index is deleted by hand: the operator recreates it within a minute.',
    types: 'exec vec-docs-0 -- curl -X DELETE localhost:6333/collections/books/index/author',
    sample: 'collection',
    act: (context) => engineOf(context, 'DELETE', '/collections/books/index/author'),
    phases: ['Ready'],
    proves: indexIsBack,
    seconds: 180,
  },
  {
    says: 'The size of a vector cannot change: Degraded, naming both sizes, and nothing is touched.',
    types: 'edit veccollection books',
    sample: 'collection',
    act: (context) => resize(context, 512),
    phases: ['Degraded'],
    seconds: 180,
  },
  {
    says: 'The size is put back, and all is well.',
    types: 'edit veccollection books',
    sample: 'collection',
    act: (context) => resize(context, 384),
    phases: ['Ready'],
    seconds: 180,
  },
  {
    says: 'Points are written into it, as a client of the engine does.',
    types: 'exec vec-docs-0 -- curl -X PUT localhost:6333/collections/books/points?wait=true -d @-',
    sample: 'collection',
    act: (context) =>
      engineOf(context, 'PUT', '/collections/books/points?wait=true', { points: points() }),
    phases: ['Ready'],
    proves: (context) => allIn(context, 'books'),
    seconds: 60,
  },
]

export const COLLECTION_END: Step[] = [
  {
    says: 'The VecCollection is deleted, and the collection with all its points: its deletionPolicy says so.',
    types: 'delete veccollection books',
    sample: 'collection',
    act: (context) => deleteSample(context, 'collection'),
    phases: [GONE],
    proves: booksAreLost,
    seconds: 180,
  },
]

/** Every point is in the collection or alias of this name. */
export async function allIn(context: DemoContext, collection: string): Promise<string> {
  const count = await countIn(context, collection)
  if (count !== POINTS) throw new Error(`${collection} has ${count} points of ${POINTS}`)
  return `${collection} has ${count} points`
}

async function booksAreLost(context: DemoContext): Promise<string> {
  const left = await collectionsOf(context)
  if (left.length > 0) throw new Error(`the engine still has ${left.join(', ')}`)
  return 'the engine has no collection and no point'
}

/** A collection is looked after once a minute, and a little earlier or later. */
const LOOKED_AFTER_SECONDS = 75

async function indexIsBack(context: DemoContext): Promise<string> {
  await context.world.advance(LOOKED_AFTER_SECONDS)
  const answer = await engineOf(context, 'GET', '/collections/books')
  if (!JSON.stringify(answer).includes('"author"')) throw new Error('the index is not back')
  return 'the engine has the index author'
}

function resize(context: DemoContext, size: number): Promise<AnyObject> {
  const sample = sampleOf(context, 'collection') as AnyObject & { spec: { vectors: object[] } }
  const vectors = sample.spec.vectors.map((vector) => ({ ...vector, size }))
  return context.world.patch(referenceOf(sample), { spec: { vectors } })
}

/** Of both kinds of vectors, and with a payload that is indexed. */
function points(): object[] {
  return Array.from({ length: POINTS }, (_, index) => ({
    id: index + 1,
    vector: {
      title: Array.from({ length: 384 }, (_, context) => 1 + ((index * context) % 7)),
      words: { indices: [index, index + POINTS], values: [1, 0.5] },
    },
    payload: { author: `author ${index % 5}`, year: 1900 + index },
  }))
}
