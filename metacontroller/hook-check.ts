/**
 * Checks that the CompositeControllers call the hooks of this release, and that the hooks answer
 * their token and no other. Part of install-check.ts.
 */
import { isDeepStrictEqual } from 'node:util'
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { API_VERSION } from '../crds/contract/names.ts'
import { RESOURCES } from '../crds/crd.ts'
import { Secret, secretValue } from '../crds/kubernetes.ts'
import { callHook } from '../jobs/clients/hooks.ts'
import { certificateError, errorMessage, type HttpResponse } from '../jobs/clients/http/request.ts'
import { compositeControllers, secrets } from '../jobs/clients/kubernetes/api-resources.ts'
import type { Kubernetes } from '../jobs/clients/kubernetes/client.ts'
import { parseResponse } from '../jobs/clients/kubernetes/responses.ts'
import type { Clock } from '../jobs/clock.ts'
import { escapeUnprintable } from '../jobs/log.ts'
import { poll } from '../jobs/retry.ts'
import { controllers, type CompositeController } from './controllers.ts'

const Webhook = Type.Object({
  url: Type.Optional(Type.String()),
  caBundle: Type.Optional(Type.Object({ inline: Type.Optional(Type.String()) })),
  authorization: Type.Optional(
    Type.Object({
      secretRef: Type.Optional(
        Type.Object({ namespace: Type.String(), name: Type.String(), key: Type.String() }),
      ),
    }),
  ),
})
type Webhook = Static<typeof Webhook>

const LiveController = Type.Object({
  spec: Type.Object({
    hooks: Type.Record(Type.String(), Type.Object({ webhook: Type.Optional(Webhook) })),
  }),
})

const CustomizeAnswer = Type.Object({ relatedResources: Type.Array(Type.Object({})) })

/**
 * A service that has just started connects the CompositeControllers within seconds; another leader
 * takes over within 20 s.
 */
const TIMEOUT_MS = 60_000
const POLL_MS = 2_000
/** Characters of an unexpected answer in a message. */
const MAX_ANSWER = 300

export interface HookCheck {
  kubernetes: Pick<Kubernetes, 'get'>
  time: Pick<Clock, 'monotonicMs' | 'sleep'>
  /** Ends the check early, with its reason. */
  signal?: AbortSignal | undefined
}

/** Errors that remain after a minute, one line each. `url` is where this release is called. */
export async function hookErrors(
  { kubernetes, time, signal }: HookCheck,
  { url, kinds }: { url: string; kinds: readonly string[] },
): Promise<string[]> {
  const rendered = { version: '', tokenFingerprint: '', namespacesHash: '' }
  const expected = controllers({ url, kinds, ...rendered })
  return poll({ time, signal, pauseMs: POLL_MS }, async ({ waitedMs }) => {
    const found = await Promise.all(
      expected.map((controller) => controllerErrors(kubernetes, controller)),
    )
    const errors = found.flat()
    return errors.length === 0 || waitedMs() >= TIMEOUT_MS ? errors : undefined
  })
}

async function controllerErrors(
  kubernetes: HookCheck['kubernetes'],
  { metadata: { name }, spec }: CompositeController,
): Promise<string[]> {
  const label = `CompositeController ${name}`
  try {
    const live = await kubernetes.get(compositeControllers(), name, LiveController)
    if (live === undefined) return [`${label} does not exist`]
    const errors = webhookErrors(live.spec.hooks, spec.hooks)
    const customize = live.spec.hooks['customize']?.webhook
    if (errors.length === 0 && customize !== undefined)
      errors.push(...(await answerErrors(kubernetes, customize, spec.parentResource.resource)))
    return errors.map((error) => `${label}: ${error}`)
  } catch (error) {
    return [`${label}: ${errorMessage(error)}`]
  }
}

function webhookErrors(
  live: Static<typeof LiveController>['spec']['hooks'],
  expected: CompositeController['spec']['hooks'],
): string[] {
  const customize = live['customize']?.webhook
  return Object.entries(expected).flatMap(
    ([
      hook,
      {
        webhook: { url },
      },
    ]) => {
      const webhook = live[hook]?.webhook
      if (webhook?.url === undefined) return [`hook ${hook} is missing`]
      const address = withoutQuery(webhook.url)
      if (address !== withoutQuery(url))
        return [`hook ${hook} is called at ${address}, this release is at ${withoutQuery(url)}`]
      if (webhook.authorization?.secretRef === undefined)
        return [`hook ${hook} is called without a token: the service has not connected it`]
      if (!isDeepStrictEqual(credentials(webhook), credentials(customize)))
        return [`hook ${hook} is called with another token or CA than hook customize`]
      return []
    },
  )
}

/** The query only makes Metacontroller notice changes (controllers.ts). */
function withoutQuery(url: string): string {
  return url.split('?', 1)[0] ?? url
}

function credentials({ authorization, caBundle }: Webhook = {}): object {
  return { secretRef: authorization?.secretRef, ca: caBundle?.inline }
}

/** Calls the hook customize with the token that Metacontroller sends, and with another one. */
async function answerErrors(
  kubernetes: HookCheck['kubernetes'],
  { url = '', authorization, caBundle }: Webhook,
  plural: string,
): Promise<string[]> {
  const { namespace = '', name = '', key = '' } = authorization?.secretRef ?? {}
  const secret = await kubernetes.get(secrets(namespace), name, Secret)
  if (secret === undefined) return [`Secret ${namespace}/${name} with its token does not exist`]
  const token = secretValue(secret, key)?.trim() ?? ''
  if (token === '') return [`Secret ${namespace}/${name} has no token in its key ${key}`]
  const body = { parent: deletedParent(plural) }
  const call = async (sent: string) =>
    callHook(url, { token: sent, caBundle: caBundle?.inline, body }).catch((error: unknown) => {
      const reason = certificateError(error) ?? errorMessage(error)
      throw new Error(`hook customize cannot be called at ${withoutQuery(url)}: ${reason}`)
    })
  return [...acceptanceErrors(await call(token)), ...rejectionErrors(await call('not-the-token'))]
}

function acceptanceErrors({ status, text }: HttpResponse): string[] {
  if (status !== 200) {
    const answer = escapeUnprintable(text.slice(0, MAX_ANSWER))
    return [`hook customize answers its token with ${status}: ${answer}`]
  }
  try {
    parseResponse(CustomizeAnswer, text, 'hook customize')
    return []
  } catch (error) {
    return [errorMessage(error)]
  }
}

function rejectionErrors({ status }: HttpResponse): string[] {
  const isRejected = status === 401 || status === 403
  return isRejected ? [] : [`hook customize answers a wrong token with ${status} instead of 401`]
}

/** A resource that is being deleted: the answer names no related resources, and nothing is read. */
function deletedParent(plural: string): object {
  const resource = RESOURCES.find((candidate) => candidate.plural === plural)
  const identity = { name: 'helm-test', namespace: 'helm-test', uid: 'helm-test' }
  const time = '2026-01-01T00:00:00Z'
  const ref = { name: 'helm-test' }
  // What the deletion of some kind reads and what has no default.
  const spec = {
    ...{ clusterRef: ref, targetClusterRef: ref, schedule: '0 0 * * *' },
    storage: { s3: { bucket: 'helm-test' } },
  }
  return {
    apiVersion: API_VERSION,
    kind: resource?.kind,
    metadata: { ...identity, generation: 1, creationTimestamp: time, deletionTimestamp: time },
    spec: resource === undefined ? spec : Value.Default(resource.spec, spec),
  }
}
