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
  type DemoContext,
  type Step,
} from './step.ts'

/** Name of the copy. */
const COPY = 'books-copy'

export const RETURN_STEPS: Step[] = [
  {
    says: 'A VecRestore: a Job has the nodes take their snapshots, one after the other, then counts.',
    types: 'apply -f docs/samples/restore.yaml',
    sample: 'restore',
    // It has its name to itself.
    act: (context) =>
      context.world.apply(sampleWith(context, 'restore', { collectionMapping: undefined })),
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
    act: (context) => context.world.apply(sampleWith(context, 'migration', fromItself())),
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
    act: async (context) => {
      await deleteSample(context, 'migration')
      await deleteSample(context, 'restore')
    },
    phases: [GONE],
    proves: bothStay,
    needsBucket: true,
    seconds: 120,
  },
]

/** Clients find them where they were, by the alias. */
async function booksAreBack(context: DemoContext): Promise<string> {
  await allIn(context, 'books')
  return `${await allIn(context, 'library')} again, by its alias`
}

/** The only other engine of the tour is its own. */
function fromItself(): object {
  const source = { clusterRef: { name: 'docs' } }
  return { source, collections: ['books'], collectionMapping: { books: COPY } }
}

async function booksAreCopied(context: DemoContext): Promise<string> {
  const migration = await context.world.get(referenceOf(sampleOf(context, 'migration')))
  const { collections = [] } = (migration as { status?: MigrationStatus } | undefined)?.status ?? {}
  return `${await allIn(context, COPY)}: ${collections[0]?.proof ?? ''}`
}

async function bothStay(context: DemoContext): Promise<string> {
  const migration = referenceOf(sampleOf(context, 'migration'))
  await context.world.waitFor(migration, GONE, (object) => phaseOf(object) === GONE)
  return `${await allIn(context, 'books')}, ${await allIn(context, COPY)}`
}
