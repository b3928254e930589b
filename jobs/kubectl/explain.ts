/** `explain <message>`: what a reason or a message of a resource means, and what to do about it. */
import { FAILURES, reasonLocation, REASONS } from '../../crds/reasons/index.ts'
import { failureMatchScore, matchScore, type Reason } from '../../crds/reasons/reason.ts'
import type { Condition } from '../../crds/schema.ts'
import { EXIT_CODES, type CliCommand, type Invocation } from './command.ts'
import { formatOutput, outputFlags } from './output.ts'

export const explain: CliCommand = {
  name: 'explain',
  operands: '<message or reason>...',
  operandCount: { min: 1, max: Infinity },
  summary: 'explain a condition, an Event or an error, and how to fix it',
  details: ['Needs no cluster. The message need not be quoted.'],
  flags: outputFlags(),
  run: async (call) => printReasons(call, findReasons(call.operands.join(' '))),
}

interface ExplainedReason extends Reason {
  kind: string
}

/** For a single word, the reasons with that name; for a text, the reasons whose messages match it best. */
export function findReasons(text: string): ExplainedReason[] {
  const all = Object.entries(REASONS).flatMap(([kind, reasons]) =>
    reasons.map((reason) => ({ kind, ...reason })),
  )
  const exactMatches = all.filter(
    ({ reason }) => reason.toLowerCase() === text.trim().toLowerCase(),
  )
  if (exactMatches.length > 0) return exactMatches
  // As in `kubectl describe`, the reason may precede the message.
  const texts = [text, text.replace(/^\S+\s+/, '')]
  const score = ({ messages }: Reason) =>
    Math.max(
      ...messages.flatMap((pattern) => texts.map((candidate) => matchScore(pattern, candidate))),
    )
  const best = Math.max(...all.map(score))
  const matches = best === 0 ? [] : all.filter((entry) => score(entry) === best)
  // An error is part of a message of its own kind; the patterns of other kinds match any error.
  const failures = matchingFailures(text)
  const kinds = new Set(failures.map(({ kind }) => kind))
  return [...matches.filter(({ kind }) => failures.length === 0 || kinds.has(kind)), ...failures]
}

/** The explanations of an error of a Failed resource: the best match of each kind. */
function matchingFailures(text: string): ExplainedReason[] {
  return Object.entries(FAILURES).flatMap(([kind, failures]) => {
    const best = Math.max(...failures.map((entry) => failureMatchScore(entry, text)))
    return failures
      .filter((entry) => best > 0 && failureMatchScore(entry, text) === best)
      .map(({ patterns: words, ...rest }) => ({ kind, reason: 'Failed', messages: words, ...rest }))
  })
}

/** What to do about a condition. */
export interface Fix {
  reason: string
  fix: string
}

/** Fixes for the error and for the conditions that require an action. */
export function fixesFor(
  kind: keyof typeof REASONS,
  { conditions = [], error = '' }: { conditions?: readonly Condition[]; error?: string } = {},
): Fix[] {
  const errorFixes = matchingFailures(error).filter((failure) => failure.kind === kind)
  const conditionFixes = conditions.flatMap(({ type, status, reason }) =>
    REASONS[kind]
      .filter((row) => row.reason === reason && row.condition?.type === type)
      .filter(({ condition, fix }) => condition?.status === status && !fix.startsWith(NO_ACTION))
      .map(({ fix }) => ({ reason, fix })),
  )
  return [...conditionFixes, ...errorFixes.map(({ reason, fix }) => ({ reason, fix }))]
}

/** JSON output names the fix `cure`, which scripts read. */
export function toJsonKeys<T extends { fix: string }>({ fix, ...rest }: T) {
  return { ...rest, cure: fix }
}

/** First word of a fix that requires no action. */
const NO_ACTION = 'Nothing'

function printReasons(call: Invocation, reasons: ExplainedReason[]): number {
  const text = () =>
    reasons.length === 0
      ? 'No known reason or message matches. docs/reasons.md lists all of them.\n'
      : groupIdentical(reasons).map(formatReason).join('\n')
  call.print(formatOutput(call, reasons.map(toJsonKeys), text))
  return reasons.length === 0 ? EXIT_CODES.failure : EXIT_CODES.success
}

/** Merges entries that are identical for several kinds. */
function groupIdentical(reasons: ExplainedReason[]): ExplainedReason[] {
  const groups = new Map<string, ExplainedReason>()
  for (const entry of reasons) {
    const identity = JSON.stringify([entry.reason, reasonLocation(entry), entry.cause, entry.fix])
    const existing = groups.get(identity)
    groups.set(
      identity,
      existing === undefined ? entry : { ...entry, kind: `${existing.kind}, ${entry.kind}` },
    )
  }
  return [...groups.values()]
}

function formatReason(entry: ExplainedReason): string {
  return [
    `${entry.reason} (${entry.kind}: ${reasonLocation(entry)})`,
    ...entry.messages.map((message) => `  message  ${message}`),
    `  cause    ${entry.cause}`,
    `  fix      ${entry.fix}`,
    '',
  ].join('\n')
}
