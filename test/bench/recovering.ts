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

interface Line {
  time: string
  msg: string
  /** Of a snapshot that a node has taken. */
  way?: string
}

/**
 * Seconds a Job waited for the engine beside its recover calls: until a collection was made, and from
 * each answer until all nodes agreed on it.
 */
export function settlingIn(output: string): number {
  const lines = output.trim().split('\n')
  const parsed = lines.map((line) => JSON.parse(line) as Line)
  const gaps = parsed.slice(1).map(({ time }, n) => {
    const { msg, way, time: begun } = parsed[n] ?? { msg: '', time }
    const isWaiting = way !== undefined || msg.startsWith('makes collection')
    return isWaiting ? Date.parse(time) - Date.parse(begun) : 0
  })
  return gaps.reduce((sum, milliseconds) => sum + milliseconds, 0) / 1000
}
