/**
 * Writes the CA and the token that Metacontroller uses for hook calls into the
 * CompositeControllers. The chart renders neither unless the user provides them: renderings stay
 * identical, and a tool that applies the chart again does not remove them. Metacontroller reads
 * both only when the spec of a CompositeController changes, so the spec itself contains the name of
 * the token and the text of the CA certificate (docs/metacontroller-notes.md).
 */
import { Type, type Static } from '@sinclair/typebox'
import type { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { controllerName } from '../controllers.ts'
import { compositeControllers } from '../../jobs/clients/kubernetes/api-resources.ts'
import type { Log } from '../runtime.ts'

const Webhook = Type.Object({
  url: Type.Optional(Type.String()),
  caBundle: Type.Optional(Type.Unknown()),
  authorization: Type.Optional(Type.Unknown()),
})
const CompositeController = Type.Object({
  metadata: Type.Object({ name: Type.String() }),
  spec: Type.Object({
    hooks: Type.Record(Type.String(), Type.Object({ webhook: Webhook })),
  }),
})
type Webhook = Static<typeof Webhook>

export interface ConnectDependencies {
  kubernetes: Kubernetes
  plurals: readonly string[]
  /**
   * Host names of the service. Webhooks with another host belong to another service and are left
   * unchanged.
   */
  hosts: readonly string[]
  log: Log
}

/** Credentials for hook calls; absent fields are left unchanged. */
export interface Credentials {
  token?: { namespace: string; name: string; key: string }
  caBundle?: string
}

/** Writes the credentials where they differ; skips CompositeControllers that are not installed. */
export async function connectControllers(
  { kubernetes, plurals, hosts, log }: ConnectDependencies,
  credentials: Credentials,
): Promise<void> {
  for (const plural of plurals) {
    const name = controllerName(plural)
    const live = await kubernetes.get(compositeControllers(), name, CompositeController)
    const hooks = hooksToPatch(live?.spec.hooks ?? {}, hosts, credentials)
    if (Object.keys(hooks).length === 0) continue
    await kubernetes.patch(compositeControllers(), name, { spec: { hooks } })
    log.info({ compositeController: name, token: credentials.token?.key }, 'hooks connected')
  }
}

function hooksToPatch(
  hooks: Record<string, { webhook: Webhook }>,
  hosts: readonly string[],
  { token, caBundle }: Credentials,
): Record<string, { webhook: object }> {
  const desired = {
    ...(token !== undefined && { authorization: { type: 'Bearer', secretRef: token } }),
    ...(caBundle !== undefined && { caBundle: { inline: caBundle } }),
  }
  const outdated = Object.entries(hooks).filter(
    ([, { webhook }]) => hosts.includes(hostName(webhook.url)) && !matches(webhook, desired),
  )
  return Object.fromEntries(outdated.map(([hook]) => [hook, { webhook: desired }]))
}

/**
 * Whether every desired field has its value; other fields are ignored because the API adds
 * defaults.
 */
function matches(live: unknown, desired: unknown): boolean {
  if (typeof desired !== 'object' || desired === null) return live === desired
  return Object.entries(desired).every(([field, value]) =>
    matches((live as Record<string, unknown> | undefined)?.[field], value),
  )
}

function hostName(url = ''): string {
  return URL.canParse(url) ? new URL(url).hostname.replace(/^\[(.*)\]$/, '$1') : ''
}
