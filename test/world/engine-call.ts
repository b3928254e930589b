/** A call to an engine of the embedded world through the pod proxy, with a key. */
import { request } from 'undici'
import { API_KEY_SECRET_KEY } from '../../crds/contract/names.ts'
import { recordAt } from './api/json.ts'
import type { EmbeddedApi } from './api/server.ts'
import { ApiError } from './client.ts'

/** A pod of an engine, as far as its scheme is concerned. */
export interface EnginePod {
  spec: { containers: { readinessProbe?: { httpGet?: { scheme?: string } } }[] }
}

/** What the pod proxy is to call: the scheme of the readiness probe. */
export function schemeOf(pod: EnginePod | undefined): 'http' | 'https' {
  const probe = pod?.spec.containers[0]?.readinessProbe
  return probe?.httpGet?.scheme === 'HTTPS' ? 'https' : 'http'
}

/** The answer as JSON; throws an ApiError when the engine or the proxy refuses. */
export async function callEngine(
  api: EmbeddedApi,
  { namespace, name }: { namespace: string; name: string },
  call: { method: string; path: string; body: object | undefined; key: string | undefined },
): Promise<unknown> {
  const { method, path, body, key } = call
  const proxy = `/api/v1/namespaces/${namespace}/pods/${podScheme(api, namespace, name)}:${name}:6333`
  const response = await request(`${api.url}${proxy}/proxy${path}`, {
    method,
    headers: {
      authorization: `Bearer ${api.token}`,
      'content-type': 'application/json',
      ...(key === undefined ? apiKeyHeader(api, namespace, name) : { 'api-key': key }),
    },
    body: body === undefined ? null : JSON.stringify(body),
  })
  const text = await response.body.text()
  if (response.statusCode >= 400) throw new ApiError(response.statusCode, '', text)
  return JSON.parse(text)
}

function podScheme({ resources }: EmbeddedApi, namespace: string, name: string): string {
  return schemeOf(
    resources.find(resources.kinds.of('v1', 'Pod'), namespace, name) as EnginePod | undefined,
  )
}

function apiKeyHeader(
  { resources }: EmbeddedApi,
  namespace: string,
  pod: string,
): Record<string, string> {
  const name = pod.replace(/-\d+$/, '-apikey')
  const secret = resources.find(resources.kinds.of('v1', 'Secret'), namespace, name)
  const key = recordAt(secret, 'data')[API_KEY_SECRET_KEY]
  return typeof key === 'string' ? { 'api-key': Buffer.from(key, 'base64').toString() } : {}
}
