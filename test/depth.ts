/**
 * How much is tried by tests that try many cases of one kind: seeds, generated inputs, steps at which a process is
 * killed. `npm test` tries a part of them, so that it ends within minutes; with `TEST_DEPTH=full`, as in
 * `.ci/run`, they try all of them.
 */
export const isFull = process.env['TEST_DEPTH'] === 'full'

/** The number for `npm test`, or that with `TEST_DEPTH=full`. */
export function depth(short: number, full: number): number {
  return isFull ? full : short
}

/**
 * A process is killed at the first step and at every step with this distance from it. Five has no common divisor with the
 * numbers of nodes and kinds of writes that such tests go through.
 */
export const EVERY = depth(5, 1)
