/** Calls a hook of the service as Metacontroller does: for the check of an installation. */
import { Agent } from 'undici'
import { sendRequest, type HttpResponse } from './http/request.ts'

/** As the timeout of a webhook. */
const TIMEOUT_MS = 10_000
/** The answers that are expected are short. */
const MAX_BYTES = 64 * 1024

/** `caBundle` is PEM; without it the certificate of the service must be one that Node trusts. */
export async function callHook(
  url: string,
  { token, caBundle, body }: { token: string; caBundle?: string | undefined; body: object },
): Promise<HttpResponse> {
  const dispatcher = new Agent({ connect: { ...(caBundle !== undefined && { ca: caBundle }) } })
  try {
    return await sendRequest(url, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      timeoutMs: TIMEOUT_MS,
      maxBytes: MAX_BYTES,
      dispatcher,
    })
  } finally {
    await dispatcher.destroy()
  }
}
