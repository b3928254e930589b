/** Plays a case on an API server, and keeps what the real one answered in recorded.json. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { request, type Agent } from 'undici'
import type { Json } from '../../world/api/json.ts'
import { NAMESPACE } from './objects.ts'
import type { Case } from './cases.ts'

const FILE = join(import.meta.dirname, 'recorded.json')

export interface Server {
  url: string
  token: string
  dispatcher?: Agent
}

/** What a client learns: the code, whose fields are refused and why, and warnings. */
export interface Outcome {
  code: number
  reason?: string
  causes?: string[]
  warnings?: string[]
}

export async function play(server: Server, played: Case): Promise<Outcome> {
  const { apiVersion, kind, metadata } = played.object as {
    apiVersion: string
    kind: string
    metadata: { name: string }
  }
  const plural = `${kind.toLowerCase()}s`
  const path = `/${apiVersion === 'v1' ? 'api' : 'apis'}/${apiVersion}/namespaces/${NAMESPACE}/${plural}`
  const query = played.isStrict === true ? '?fieldValidation=Strict' : ''
  const created = await call(server, 'POST', path + query, played.object)
  const own = `${path}/${metadata.name}`
  try {
    return played.patch === undefined
      ? created
      : await call(server, 'PATCH', own + query, played.patch)
  } finally {
    if (created.code === 201)
      await call(server, 'DELETE', `${own}?propagationPolicy=Background`, undefined)
  }
}

async function call(
  { url, token, dispatcher }: Server,
  method: 'POST' | 'PATCH' | 'DELETE',
  path: string,
  body: Json | undefined,
): Promise<Outcome> {
  const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
  const {
    statusCode,
    headers,
    body: answer,
  } = await request(url + path, {
    ...{ method, headers: { authorization: `Bearer ${token}`, 'content-type': type } },
    ...(body !== undefined && { body: JSON.stringify(body) }),
    ...(dispatcher !== undefined && { dispatcher }),
  })
  const { reason, details } = (await answer.json()) as Rejection
  const causes = (details?.causes ?? []).map((cause) => `${cause.field}: ${cause.reason ?? ''}`)
  // Of what is accepted but unwise, the embedded API server says nothing.
  const warnings = [headers['warning'] ?? []]
    .flat()
    .filter((text) => text.includes('unknown field'))
  return {
    code: statusCode,
    ...(statusCode >= 400 && reason !== undefined && { reason }),
    ...(causes.length > 0 && { causes: [...new Set(causes)].toSorted() }),
    ...(warnings.length > 0 && { warnings }),
  }
}

interface Rejection {
  reason?: string
  details?: { causes?: { field: string; reason?: string }[] }
}

/** As the server itself reports it: `1.34.4`. */
export async function versionOf({ url, token, dispatcher }: Server): Promise<string> {
  const { body } = await request(`${url}/version`, {
    headers: { authorization: `Bearer ${token}` },
    ...(dispatcher !== undefined && { dispatcher }),
  })
  return ((await body.json()) as { gitVersion: string }).gitVersion.replace(/^v/, '')
}

/** What a real API server answered, and its version. */
interface Recordings {
  version: string
  outcomes: Record<string, Outcome>
}

export function recordings(): Recordings {
  return JSON.parse(readFileSync(FILE, 'utf8')) as Recordings
}

export function record(recorded: Recordings): void {
  writeFileSync(FILE, `${JSON.stringify(recorded, undefined, 2)}\n`)
}
