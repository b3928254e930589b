/** What nodes of a real engine took for recover calls, by their own clocks. */

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
