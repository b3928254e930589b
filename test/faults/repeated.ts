/** Runs that once failed. Each reproduces a defect that is fixed since. */
import type { Strike } from './faults.ts'

export interface Repeated {
  /** The test title: what must hold. */
  title: string
  seed: number
  strikes: Strike[]
}

export const REPEATED: Repeated[] = [
  {
    title: 'a backup Job killed after its last upload leaves no snapshot file on the node',
    seed: 152,
    strikes: [
      {
        fault: 'Job killed after its call',
        door: 'job>bucket',
        like: 'PUT /load/one/books/node-1/checkpoint.json',
        nth: 3,
        seconds: 1,
      },
    ],
  },
  {
    title:
      'a backup by shard completes when the connection breaks at its last check of the collection',
    seed: 29,
    strikes: [
      {
        fault: 'call cut',
        door: 'job>engine',
        like: '^GET .*/collections/books$',
        nth: 8,
        seconds: 10,
      },
    ],
  },
  {
    title:
      'a restore retries while the engine is too busy to describe the collection that it has just created',
    seed: 90,
    strikes: [
      {
        fault: 'engine answers 429',
        door: 'job>engine',
        like: '^GET .*vec-b-0.*/collections/books/cluster$',
        nth: 1,
        seconds: 31,
      },
    ],
  },
]
