/** `wait`: until a resource has done what its spec asks for, or cannot do it. */
import { parseDuration } from '../../crds/units.ts'
import { poll } from '../retry.ts'
import {
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import { parseReference, readResource, summarize, type StatusObject } from './resource.ts'
import { oneLine } from './output.ts'

export const wait: CliCommand = {
  name: 'wait',
  operands: '<kind>/<name>',
  operandCount: { min: 1, max: 2 },
  summary: 'wait until a resource is done, and fail if it fails',
  details: [
    'A VecBackup, VecRestore or VecMigration is done when it is Completed, and the command ends at once with exit code 1 when it is Failed. Any other kind is done when it is Ready with its current spec, and the command fails when it waits for a change by a user (condition Stalled). Each new phase or message is printed.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    timeout: {
      type: 'string',
      value: 'DURATION',
      default: '10m',
      description: 'such as 30s, 10m or 2h; default: 10m',
    },
  },
  run: waitForResource,
}

const POLL_MS = 2_000

async function waitForResource(call: Invocation): Promise<number> {
  const { resource, name } = parseReference(call.operands, 'wait')
  const timeoutMs = timeoutOf(stringFlag(call, 'timeout') ?? '')
  const { kubernetes, namespace } = await call.connect()
  const { time, signal } = call
  const label = `${resource.kind} ${namespace}/${name}`
  let printed = ''
  return poll({ time, signal, pauseMs: POLL_MS }, async ({ waitedMs }) => {
    const object = await readResource(kubernetes, resource, { namespace, name })
    const { phase, message } = summarize(object)
    const line = `${label}  ${phase}  ${oneLine(message)}\n`
    if (line !== printed) call.print(line)
    printed = line
    const outcome = judge(object)
    if (outcome !== undefined) return outcome
    if (waitedMs() < timeoutMs) return undefined
    throw new CliError(`${label} is not done after ${stringFlag(call, 'timeout')}: ${message}`)
  })
}

/** The exit code; undefined while the outcome is open. */
export function judge({ metadata, status = {} }: StatusObject): number | undefined {
  const { phase, conditions = [], observedGeneration } = status
  if (metadata.deletionTimestamp !== undefined) return EXIT_CODES.failure
  if (phase === 'Completed') return EXIT_CODES.success
  if (phase === 'Failed') return EXIT_CODES.failure
  const { generation = 0 } = metadata
  // The status is that of an earlier spec.
  if (observedGeneration !== undefined && observedGeneration < generation) return undefined
  const find = (type: string) =>
    conditions.find((condition) => condition.type === type && condition.status === 'True')
  if (find('Stalled') !== undefined) return EXIT_CODES.failure
  if (find('Reconciling') !== undefined) return undefined
  const ready = find('Ready')
  if (ready === undefined || (ready.observedGeneration ?? generation) < generation) return undefined
  return EXIT_CODES.success
}

function timeoutOf(text: string): number {
  const seconds = /^([0-9]+(h|m|s))+$/.test(text) ? parseDuration(text) : Number.NaN
  if (Number.isNaN(seconds)) {
    throw new CliError(
      `--timeout: "${text}" is not a duration such as 30s or 10m`,
      EXIT_CODES.usage,
    )
  }
  return seconds * 1000
}
