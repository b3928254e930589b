/** The tour without a terminal: a line per change, and nothing to press. */
import { commandOf, type Guide } from './guide.ts'
import type { JobLogs } from './logs.ts'
import { rowOf } from './rows.ts'
import type { Step } from './step.ts'
import type { Watcher } from './watcher.ts'

export interface LineParts {
  watcher: Watcher
  logs: JobLogs
  /** Also print the log of each Job that has ended. */
  withLogs: boolean
  now: () => Date
  print: (line: string) => void
}

/** Width for kind and name: those of a volume claim are long. */
const WIDTH = 56

export function lineGuide({ watcher, logs, withLogs, now, print }: LineParts): Guide {
  const last = new Map<string, string>()
  watcher.onChange(({ object, gone }) => {
    const { kind, name, phase, message } = rowOf(object)
    const line = gone ? 'gone' : `${phase.padEnd(9)}  ${message}`.trimEnd()
    // Most changes of an object show in none of these.
    if (line === last.get(`${kind} ${name}`)) return
    last.set(`${kind} ${name}`, line)
    print(`${clock(now())}  ${`${kind} ${name}`.padEnd(WIDTH)}  ${line}`)
  })
  if (withLogs) {
    logs.onEnd(({ job, text }) => {
      print(`${clock(now())}  log of Job ${job}:`)
      for (const line of text.trimEnd().split('\n')) print(`          | ${line}`)
    })
  }
  return {
    async announce(step: Step, namespace) {
      print('')
      print(step.says)
      print(`$ ${commandOf(step, namespace)}`)
    },
    async report(finding: string) {
      print(`=> ${finding}`)
    },
    async end() {
      await logs.flushed()
    },
    async close() {
      await logs.flushed()
    },
  }
}

/** Time of day in UTC: in the embedded world it jumps over what is only waited for. */
function clock(instant: Date): string {
  return instant.toISOString().slice(11, 19)
}
