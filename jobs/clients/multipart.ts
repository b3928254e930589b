/** A file as the one field of a multipart form, streamed: its length is known before its first byte. */
import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'

/** A body that is sent as it comes. */
export interface StreamBody {
  source: Readable
  contentType: string
  contentLength: number
}

interface FormFile {
  field: string
  /** Name of the file, without quotes or line breaks. */
  file: string
  source: Readable
  /** Bytes of `source`. */
  size: number
  /** Awaited once all bytes of the file have been sent, before the line that completes the form. */
  beforeEnd?: () => Promise<void>
}

export function fileForm({ field, file, source, size, beforeEnd }: FormFile): StreamBody {
  const boundary = `vec-operator-${randomUUID()}`
  const head = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${file}"\r\n` +
      'Content-Type: application/octet-stream\r\n\r\n',
  )
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`)
  return {
    source: Readable.from(framed({ head, source, tail, beforeEnd }), { objectMode: false }),
    contentType: `multipart/form-data; boundary=${boundary}`,
    contentLength: head.length + size + tail.length,
  }
}

interface Parts {
  head: Buffer
  source: Readable
  tail: Buffer
  beforeEnd: (() => Promise<void>) | undefined
}

async function* framed({ head, source, tail, beforeEnd }: Parts): AsyncGenerator<Uint8Array> {
  yield head
  for await (const chunk of source) yield chunk as Uint8Array
  await beforeEnd?.()
  yield tail
}
