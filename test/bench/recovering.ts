/** What a restore is spent on: recover calls by the clocks of the nodes, and waiting for them by the Job's log. */

const RECOVER = 'PUT /collections/{collection_name}/snapshots/recover'

interface Telemetry {
  requests: {
    rest: { responses: Record<string, Record<string, { total_duration_micros: number }>> }
  }
}

/** Seconds that all nodes together took so far for those that succeeded. */
export async function recoveringOf(urls: readonly string[]): Promise<number> {
  const times = await Promise.all(urls.map(microsecondsOf))
  return times.reduce((sum, microseconds) => sum + microseconds, 0) / 1e6
}

async function microsecondsOf(url: string): Promise<number> {
  const response = await fetch(`${url}/telemetry?details_level=6`)
  const { result } = (await response.json()) as { result: Telemetry }
  return result.requests.rest.responses[RECOVER]?.['200']?.total_duration_micros ?? 0
}

/** Seconds in which a Job only waits for the engine, without its recover calls. */
export interface Waits {
  /** Until the collection is created and all nodes know of it. */
  making: number
  /** From each recover call's answer until all nodes agree on it. */
  agreeing: number
  /** Until its points are counted, it is green and has its aliases. */
  proving: number
}

interface Line {
  time: string
  msg: string
  /** Of a snapshot that a node has taken. */
  way?: string
}

/** From its log: a wait lasts from the line that begins it to the next line about something else. */
export function waitsIn(output: string): Waits {
  const waits: Waits = { making: 0, agreeing: 0, proving: 0 }
  const lines = output.trim().split('\n')
  let wait: keyof Waits | undefined
  let begun = 0
  for (const line of lines.map((text) => JSON.parse(text) as Line)) {
    const now = Date.parse(line.time) / 1000
    if (wait !== undefined) waits[wait] += now - begun
    begun = now
    if (!line.msg.startsWith('waits')) wait = waitAfter(line)
  }
  return waits
}

function waitAfter({ msg, way }: Line): keyof Waits | undefined {
  if (way !== undefined) return 'agreeing'
  if (msg.startsWith('makes collection')) return 'making'
  return /: (counts its points|waits until it is green);| has \d+ points$/.test(msg)
    ? 'proving'
    : undefined
}
