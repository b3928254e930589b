/**
 * The log of a Job: one JSON object per line, or a line of text, on standard output. Every line is
 * written before the call returns, so that nothing is lost when the process exits: `kubectl logs`
 * may be all that is left of a Job. Also escapes control characters for terminals.
 */
import { destination, pino, type DestinationStream, type Logger } from 'pino'

const LEVELS: Record<string, string> = {
  DEBUG: 'debug',
  INFO: 'info',
  WARNING: 'warn',
  ERROR: 'error',
}
const LEVEL_NAMES: Record<number, string> = { 20: 'DEBUG', 30: 'INFO', 40: 'WARNING', 50: 'ERROR' }

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
      formatters: { level: (_, number) => ({ level: LEVEL_NAMES[number] ?? 'ERROR' }) },
    },
    env['LOG_FORMAT'] === 'text' ? { write: (line) => output.write(formatLine(line)) } : output,
  )
}

export function standardOutput(): DestinationStream {
  return destination({ fd: 1, sync: true })
}

export function standardError(): DestinationStream {
  return destination({ fd: 2, sync: true })
}

/** Formats a JSON line as `time LEVEL message key=value ...`. */
function formatLine(line: string): string {
  const { time, level, msg, err, ...fields } = JSON.parse(line) as Record<string, unknown>
  const formattedFields = Object.entries(fields).map(
    ([key, value]) => ` ${key}=${formatValue(value)}`,
  )
  const stackText = err === undefined ? '' : `\n${formatStack((err as { stack?: unknown }).stack)}`
  return `${formatValue(time)} ${formatValue(level)} ${formatValue(msg)}${formattedFields.join('')}${stackText}\n`
}

/** On one line: outside text must not look like a log line of its own. */
function formatValue(value: unknown): string {
  return escapeUnprintable(typeof value === 'string' ? value : JSON.stringify(value))
}

/** A stack has lines of its own; none of them starts like a log line. */
function formatStack(stack: unknown): string {
  return typeof stack === 'string'
    ? stack.split('\n').map(formatStackLine).join('\n')
    : formatValue(stack)
}

function formatStackLine(line: string): string {
  return `  ${escapeUnprintable(line)}`
}

/** Control characters, and those that change the order in which a terminal displays others. */
export const UNPRINTABLE = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** The text with every character that a terminal would interpret written as `\u{...}`. */
export function escapeUnprintable(text: string): string {
  return text.replaceAll(UNPRINTABLE, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
  })
}
