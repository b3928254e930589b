/**
 * The coverage map of `npm run test:coverage`. Worlds and generated cases are not covered: they take most of
 * the time, run hundreds of processes, and hardly reach a line that the tests of the parts do not.
 */

const WORLDS = /^test\/(faults|fuzz|hard|model|scenarios|world\/demo)\//

/** Files whose coverage a test shows: null for none, an empty list for all. */
export default function coveredBy(test) {
  return WORLDS.test(test) ? null : []
}
