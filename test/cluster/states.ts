/** All states of one object: a watch also sees the states that pass between two reads. */
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError, type ApiClient, type ApiObject } from '../world/client.ts'
import type { Reference } from '../world/world.ts'

/** How soon to look again for a kind that is not there yet, or where a watch has ended. */
const AGAIN_MS = 500
/** The object is read again after this number of consecutive broken watches. */
const MOST_FAILURES = 3

/** Its state now, and after every change; undefined while there is none. Ends when the signal aborts. */
export async function* states(
  client: ApiClient,
  reference: Reference,
  signal: AbortSignal,
): AsyncGenerator<ApiObject | undefined, void> {
  while (!signal.aborted) {
    const { item, resourceVersion } = await look(client, reference)
    yield item
    if (resourceVersion !== undefined) {
      yield* changes(client, reference, { resourceVersion, signal })
    }
    await sleep(AGAIN_MS)
  }
}

async function look(client: ApiClient, reference: Reference) {
  const { apiVersion, kind } = reference
  try {
    const { items, resourceVersion } = await client.list(apiVersion, kind, only(reference))
    return { item: items[0], resourceVersion }
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return {}
    throw error
  }
}

/** Until the server has discarded the version; a watch that has ended is continued from the last version seen. */
async function* changes(
  client: ApiClient,
  reference: Reference,
  from: { resourceVersion: string; signal: AbortSignal },
): AsyncGenerator<ApiObject | undefined, void> {
  const { apiVersion, kind } = reference
  let { resourceVersion } = from
  for (let failures = 0; failures < MOST_FAILURES && !from.signal.aborted;) {
    try {
      const selection = { ...only(reference), ...from, resourceVersion }
      for await (const { type, object } of client.watch(apiVersion, kind, selection)) {
        failures = 0
        resourceVersion = object.metadata.resourceVersion ?? resourceVersion
        if (type !== 'BOOKMARK') yield type === 'DELETED' ? undefined : object
      }
    } catch (error) {
      // If the server fails, the next read reports it.
      if (error instanceof ApiError) return
      failures += 1
    }
    await sleep(AGAIN_MS)
  }
}

const only = ({ namespace, name }: Reference) => ({
  namespace,
  fieldSelector: `metadata.name=${name}`,
})
