/**
 * Which of several collections has a name: the engine gives each one a uuid (docs/engine-notes.md, "Collections"). A
 * node that has not caught up still reports that of a deleted one, so no single node decides.
 */
import { EngineError } from '../crds/contract/errors.ts'
import type { EngineSnapshots } from './clients/engine/snapshots.ts'

/** A node that cannot be reached takes part in no change of the collection. */
const ANSWER_MS = 5_000

/** Digits of a uuid in a report: enough to distinguish two collections of one name. */
export const UUID_DIGITS = 8

export interface Question {
  name: string
  /** By ordinal. */
  nodes: readonly EngineSnapshots[]
  signal: AbortSignal
}

/**
 * The uuid of the collection on every node; undefined if no node reports one: there is no such collection, or the
 * engine gives it none. Throws an error that may pass if a node does not answer, or if nodes report different ones.
 */
export async function agreedUuid({ name, nodes, signal }: Question): Promise<string | undefined> {
  const reported = await Promise.all(nodes.map((node) => node.uuids(signal)))
  return requireSame(
    name,
    reported.map((uuids) => uuids.get(name)),
  )
}

/** The same for the nodes that answer soon. Throws if none does. */
export async function agreedUuidOfReachable(question: Question): Promise<string | undefined> {
  const { name, nodes, signal } = question
  const reported = await askReachable(nodes, signal, (node) => node.uuids(signal, ANSWER_MS))
  return requireSame(
    name,
    reported.map((uuids) => uuids?.get(name)),
  )
}

/**
 * One attempt, at the nodes that answer soon: whether another collection has the name than the one with this uuid; false
 * if there is none, or without uuids. Throws as `agreedUuidOfReachable` does.
 */
export async function isReplaced(
  question: Question,
  expected: string | undefined,
): Promise<boolean> {
  return expected !== undefined && isOther(await agreedUuidOfReachable(question), expected)
}

export function isOther(uuid: string | undefined, expected: string): boolean {
  return uuid !== undefined && uuid !== expected
}

/** The answer of each node, by ordinal; undefined for one that does not answer. Throws if none does. */
export async function askReachable<Node, Answer>(
  nodes: readonly Node[],
  signal: AbortSignal,
  ask: (node: Node) => Promise<Answer>,
): Promise<(Answer | undefined)[]> {
  const failures: EngineError[] = []
  const answers = await Promise.all(
    nodes.map(async (node) => {
      try {
        return await ask(node)
      } catch (error) {
        signal.throwIfAborted()
        if (!(error instanceof EngineError)) throw error
        failures.push(error)
        return undefined
      }
    }),
  )
  const [failure] = failures
  if (failure !== undefined && failures.length === nodes.length) throw failure
  return answers
}

function requireSame(name: string, uuids: (string | undefined)[]): string | undefined {
  const [uuid, ...others] = new Set(uuids.filter((reported) => reported !== undefined))
  if (others.length === 0) return uuid
  const each = uuids.flatMap((reported, node) =>
    reported === undefined ? [] : [`${reported} on node ${node}`],
  )
  throw new EngineError(
    `the nodes do not hold the same collection ${name}: its uuid is ${each.join(', ')}`,
  )
}
