/** A watch: what changed after a version, as it happens, in chunks of JSON lines. */
import type { ServerResponse } from 'node:http'
import type { ApiObject } from '../client.ts'
import type { Kind } from './kinds.ts'
import { apiVersionOf } from './kinds.ts'
import type { Selector } from './selectors.ts'
import { collectionOf, type Change, type Store } from './store.ts'

export interface WatchOptions {
  kind: Kind
  namespace: string
  selector: Selector
  /** Empty or 0: from now on, after what is there. */
  resourceVersion: string
  bookmarks: boolean
  timeoutSeconds: number | undefined
}

type Line = 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK' | 'ERROR'

/** Streams until the client leaves or the time-out is reached. */
export function watch(store: Store, options: WatchOptions, response: ServerResponse): void {
  const { kind, namespace, selector, resourceVersion } = options
  const write = (type: Line, object: object) =>
    response.write(`${JSON.stringify({ type, object })}\n`)
  const show = (change: Change) => {
    if (change.collection !== collectionOf(kind)) return
    if (namespace !== '' && change.object.metadata.namespace !== namespace) return
    const type = seenAs(change, selector)
    if (type !== undefined) write(type, change.object)
  }

  response.writeHead(200, { 'content-type': 'application/json' })
  // Without this a client that waits for the headers hears nothing until the first change.
  response.flushHeaders()
  if (resourceVersion === '' || resourceVersion === '0') {
    for (const object of store.list(kind, namespace)) if (selector(object)) write('ADDED', object)
  } else {
    const missed = store.since(Number(resourceVersion))
    if (missed === undefined) {
      write('ERROR', expired(resourceVersion))
      response.end()
      return
    }
    for (const change of missed) show(change)
  }
  if (options.bookmarks) write('BOOKMARK', bookmark(kind, store.revision))

  const end = store.subscribe(show)
  const timer = setTimeout(() => response.end(), (options.timeoutSeconds ?? 3600) * 1000)
  timer.unref()
  response.on('close', () => {
    end()
    clearTimeout(timer)
  })
}

/** An object that starts or stops matching a selector is added or deleted for watches with it. */
function seenAs({ type, object, previous }: Change, selector: Selector): Line | undefined {
  const matched = previous !== undefined && selector(previous)
  if (type === 'DELETED') return matched ? 'DELETED' : undefined
  if (selector(object)) return matched ? 'MODIFIED' : 'ADDED'
  return matched ? 'DELETED' : undefined
}

function bookmark(kind: Kind, revision: number): Pick<ApiObject, 'apiVersion' | 'kind'> {
  return {
    apiVersion: apiVersionOf(kind),
    kind: kind.kind,
    ...{ metadata: { resourceVersion: String(revision), creationTimestamp: null } },
  }
}

function expired(resourceVersion: string): object {
  return {
    kind: 'Status',
    apiVersion: 'v1',
    metadata: {},
    status: 'Failure',
    message: `too old resource version: ${resourceVersion}`,
    reason: 'Expired',
    code: 410,
  }
}
