/**
 * The log of a Job: one JSON object a line, or a line of text, on standard output. Every line is
 * written before the call returns, so that nothing is lost when the process ends. `kubectl logs` of a
 * Job is all a person may have left of it.
 */
import { destination, pino, type DestinationStream, type Logger } from 'pino'
import { printable } from './printable.ts'

const LEVELS: Record<string, string> = {
  DEBUG: 'debug',
  INFO: 'info',
  WARNING: 'warn',
  ERROR: 'error',
}
const NAMES: Record<number, string> = { 20: 'DEBUG', 30: 'INFO', 40: 'WARNING', 50: 'ERROR' }

/** `LOG_LEVEL` is DEBUG, INFO, WARNING or ERROR; `LOG_FORMAT` is json or text. */
export function jobLog(
  env: NodeJS.ProcessEnv = process.env,
  output: DestinationStream = standardOutput(),
): Logger {
  return pino(
    {
      level: LEVELS[(env['LOG_LEVEL'] ?? '').toUpperCase()] ?? 'info',
      base: {},
      timestamp: () => `,"time":"${new Date().toISOString()}"`,
      formatters: { level: (_, number) => ({ level: NAMES[number] ?? 'ERROR' }) },
    },
    env['LOG_FORMAT'] === 'text' ? { write: (line) => output.write(asText(line)) } : output,
  )
}

export function standardOutput(): DestinationStream {
  return destination({ fd: 1, sync: true })
}

/** `time LEVEL message key=value ...`, from a line of JSON. */
function asText(line: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>
  const rest = Object.entries(fields).map(([key, value]) => ` ${key}=${plain(value)}`)
  const failure = err === undefined ? '' : `\n${indented((err as { stack?: unknown }).stack)}`
  return `${plain(time)} ${plain(level)} ${plain(msg)}${rest.join('')}${failure}\n`
}

/** On one line: what others say must not look like a line of ours. */
function plain(value: unknown): string {
  return printable(typeof value === 'string' ? value : JSON.stringify(value))
}

/** A stack has lines of its own; none of them begins like a line of the log. */
function indented(stack: unknown): string {
  return typeof stack === 'string' ? stack.split('\n').map(indentedLine).join('\n') : plain(stack)
}

function indentedLine(line: string): string {
  return `  ${printable(line)}`
}
