/** The tour, VecRestore and VecMigration: what was lost comes back, and is copied. */
import type { MigrationStatus } from '../../../crds/migration.ts'
import { allIn } from './collection-steps.ts'
import {
  deleteSample,
  GONE,
  phaseOf,
  referenceOf,
  sampleOf,
  sampleWith,
  type Place,
  type Step,
} from './step.ts'

/** Name of what is copied. */
const COPY = 'books-copy'

export const RETURN_STEPS: Step[] = [
  {
    says: 'A VecRestore: a Job has the nodes take their snapshots, one after the other, then counts.',
    types: 'apply -f docs/samples/restore.yaml',
    sample: 'restore',
    // It has its name to itself.
    act: (place) =>
      place.world.apply(sampleWith(place, 'restore', { collectionMapping: undefined })),
    // What is between may last for less than a look.
    phases: ['Completed'],
    proves: booksAreBack,
    needsBucket: true,
    seconds: 600,
  },
  {
    says: 'A VecMigration: a Job copies the collection point by point, here under another name, and compares.',
    types: 'apply -f docs/samples/migration.yaml',
    sample: 'migration',
    act: (place) => place.world.apply(sampleWith(place, 'migration', fromItself())),
    phases: ['Completed'],
    proves: booksAreCopied,
    needsBucket: true,
    seconds: 300,
  },
]

export const RETURN_END: Step[] = [
  {
    says: 'The VecRestore and the VecMigration are deleted; what they brought stays.',
    types: 'delete vecmigration/docs-from-old vecrestore/docs-again',
    sample: 'restore',
    act: async (place) => {
      await deleteSample(place, 'migration')
      await deleteSample(place, 'restore')
    },
    phases: [GONE],
    proves: bothStay,
    needsBucket: true,
    seconds: 120,
  },
]

/** Clients find them where they were, by the alias. */
async function booksAreBack(place: Place): Promise<string> {
  await allIn(place, 'books')
  return `${await allIn(place, 'library')} again, by its alias`
}

/** The only other engine of the tour is its own. */
function fromItself(): object {
  const source = { clusterRef: { name: 'docs' } }
  return { source, collections: ['books'], collectionMapping: { books: COPY } }
}

async function booksAreCopied(place: Place): Promise<string> {
  const migration = await place.world.get(referenceOf(sampleOf(place, 'migration')))
  const { collections = [] } = (migration as { status?: MigrationStatus } | undefined)?.status ?? {}
  return `${await allIn(place, COPY)}: ${collections[0]?.proof ?? ''}`
}

async function bothStay(place: Place): Promise<string> {
  const migration = referenceOf(sampleOf(place, 'migration'))
  await place.world.waitFor(migration, GONE, (object) => phaseOf(object) === GONE)
  return `${await allIn(place, 'books')}, ${await allIn(place, COPY)}`
}
