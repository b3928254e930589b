/** Runs that once broke a promise: what they found is mended, and stays so. */
import type { Strike } from './faults.ts'

export interface Repeated {
  /** What must hold. */
  title: string
  seed: number
  strikes: Strike[]
}

export const REPEATED: Repeated[] = [
  {
    title:
      'a backup Job killed between the last byte in the bucket and the file on the node leaves none',
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
    title: 'a backup by shard outlives an engine that is gone at its last look',
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
      'a restore waits for an engine that is too busy to tell of the collection it has just made',
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
