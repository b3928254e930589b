/** The tour in a terminal: a live table, logs on a key, and time to read. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { commandOf, type Guide } from './guide.ts'
import type { JobLogs } from './logs.ts'
import { rowOf, type Row } from './rows.ts'
import { Screen } from './screen.ts'
import type { Step } from './step.ts'
import { WATCHED_KINDS } from './tour.ts'
import { keyOf, pause, type Watcher } from './watcher.ts'

export interface LiveParts {
  watcher: Watcher
  logs: JobLogs
  title: string
  now: () => Date
  /** The user asked to leave. */
  leave: () => void
  left: AbortSignal
}

/** Time to read what comes next, before it happens. */
const READ_MS = 3_000
const REDRAW_MS = 250
const KEYS = 'l log of the selected or newest Job   arrows select   q leave'

export function liveGuide(parts: LiveParts): Guide {
  const { watcher, logs, left } = parts
  let head = [parts.title, '', '', '']
  let log: string[] = []
  let selected: string | undefined

  const screen = new Screen(process.stdout, process.stdin, (key) => {
    if (key === 'q' || key === '\x03') parts.leave()
    if (key === 'l') void showLog()
    if (key === '\x1b[A' || key === 'k') select(-1)
    if (key === '\x1b[B' || key === 'j') select(1)
  })

  async function showLog(): Promise<void> {
    const object = watcher.objects().find((one) => keyOf(one) === selected)
    const content = await logs.read(object?.kind === 'Job' ? object.metadata.name : undefined)
    log =
      content === undefined
        ? ['no Job yet']
        : [`log of Job ${content.job}:`, ...linesOf(content.text)]
    redraw()
  }

  function select(by: number): void {
    const keys = sorted(watcher.objects()).map(keyOf)
    const at = keys.indexOf(selected ?? '')
    selected = keys[Math.min(keys.length - 1, Math.max(0, at + by))]
    redraw()
  }

  function redraw(): void {
    const content = sorted(watcher.objects())
    const at = content.findIndex((object) => keyOf(object) === selected)
    const rows: Row[] = content.map(rowOf)
    const now = parts.now()
    screen.show({ head, rows, selected: at < 0 ? undefined : at, log, foot: KEYS, now })
  }

  screen.open()
  const timer = setInterval(redraw, REDRAW_MS)
  return {
    async announce(step: Step, namespace) {
      head = [parts.title, step.says, `$ ${commandOf(step, namespace)}`, '']
      redraw()
      await pause(READ_MS, left)
    },
    async report(finding: string) {
      head = [...head.slice(0, -1), `=> ${finding}`]
      redraw()
      await pause(READ_MS, left)
    },
    async end() {
      head = [parts.title, 'That was the tour. l shows the last log; q leaves.', '', '']
      redraw()
      await untilAborted(left)
    },
    async close() {
      clearInterval(timer)
      screen.close()
    },
  }
}

function sorted(objects: AnyObject[]): AnyObject[] {
  const order = (object: AnyObject) => WATCHED_KINDS.findIndex(({ kind }) => kind === object.kind)
  return objects.sort(
    (one, other) =>
      order(one) - order(other) || one.metadata.name.localeCompare(other.metadata.name),
  )
}

function linesOf(text: string): string[] {
  return text.trimEnd().split('\n')
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
}
