/** What a VecAccessKey should have: one Secret with a current token (specification: states). */
import type { AccessKeyStatus, VecAccessKey } from '../../crds/access-key.ts'
import { hasKey } from '../../crds/connection.ts'
import { KEY_RENEWAL_SECONDS, RETRY_SECONDS } from '../../crds/limits.ts'
import type { KubernetesEvent, Secret } from '../../crds/kubernetes.ts'
import { keySecretName } from '../../crds/names.ts'
import { clusterRefusal } from '../allow.ts'
import { conditionOf, conditionsOf, secondsSince } from '../conditions.ts'
import { eventOn } from '../events.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { notServed, serves } from '../served.ts'
import { secretNameOf, type Observed } from './observe.ts'
import { isOwnedBy, isRenewal, issuedAs, keptSecret, tokenSecret } from './secret.ts'

/** The engine warns of shorter ones, and so do we. */
const SAFE_KEY_BYTES = 32

/** Why there is no token, or none that is new. */
interface Trouble {
  phase: 'Pending' | 'Failed'
  reason: string
  message: string
}

/** Not a promise because of I/O: signing is asynchronous. */
export async function sync(
  observed: Observed,
  context: Context,
): Promise<Desired<AccessKeyStatus>> {
  const { accessKey, cluster, signingKey } = observed
  const trouble = troubleOf(observed, context)
  if (trouble !== undefined || cluster === undefined || signingKey === undefined) {
    return troubled(observed, trouble ?? NOTHING_TO_SIGN_WITH, context)
  }
  const secret = await tokenSecret(accessKey, cluster, signingKey, context.now)
  const name = secret.metadata.name
  const held = observed.children.find(({ metadata }) => metadata.name === name)
  if (held === undefined || !holds(held, secret)) {
    // What is shown is what the Secret holds; it tells of the new token once that is written.
    const message = `Secret ${name} is being written`
    const status = { phase: phaseWith(held), ...(held && issuedAs(held)) }
    if (held !== undefined && isRenewal(held, secret, context.now)) {
      const ready = { status: 'True' as const, ...tokenIssued(name) }
      const renewing = answer(observed, [secret], status, context, ready)
      return { ...renewing, resyncAfterSeconds: RETRY_SECONDS }
    }
    return answer(observed, [secret], status, context, {
      status: 'False',
      reason: 'SecretNotWritten',
      message,
    })
  }
  const status = { phase: 'Ready' as const, ...issuedAs(held) }
  const words = tokenIssued(name)
  const desired = answer(observed, [secret], status, context, { status: 'True', ...words })
  // Already reported: the Secret has held it since the last pass.
  const isShown = conditionOf(accessKey, 'Ready')?.reason === 'TokenIssued'
  if (isShown && accessKey.status?.issuedAt === status.issuedAt) return desired
  const events = [
    issued(accessKey, words.message, status.issuedAt, context),
    ...shortKey(accessKey, signingKey, status, context),
  ]
  return { ...desired, events }
}

function tokenIssued(name: string): { reason: string; message: string } {
  return { reason: 'TokenIssued', message: `Secret ${name} holds a current token` }
}

/** Who waits tells so in the condition only. */
const WAITS = new Set(['ClusterNotFound', 'ClusterNotServed', 'SecretNotFound'])

function phaseWith(held: Secret | undefined): 'Pending' | 'Ready' {
  return held === undefined ? 'Pending' : 'Ready'
}

/** The token does not depend on the pass that signs it, so the same one is the same text. */
function holds({ data = {} }: Secret, wanted: Child): boolean {
  const { token, url } = wanted['data'] as Record<string, string>
  return data['token'] === token && data['url'] === url
}

const NOTHING_TO_SIGN_WITH: Trouble = {
  phase: 'Pending',
  reason: 'SecretNotFound',
  message: 'there is no key to sign with yet',
}

function troubleOf(observed: Observed, { settings }: Context): Trouble | undefined {
  const { accessKey, cluster, signingKey, other } = observed
  const { name, namespace = accessKey.metadata.namespace } = accessKey.spec.clusterRef
  const pending = (reason: string, message: string): Trouble => ({
    phase: 'Pending',
    reason,
    message,
  })

  if (other !== undefined && !isOwnedBy(other, accessKey)) {
    const message = `Secret ${other.metadata.name} is there already and belongs to somebody else`
    return { phase: 'Failed', reason: 'SecretNotOurs', message }
  }
  if (!serves(settings, namespace)) {
    return pending('ClusterNotServed', notServed(`cluster ${namespace}/${name}`))
  }
  if (cluster === undefined)
    return pending('ClusterNotFound', `cluster ${namespace}/${name} not found`)
  const refusal = clusterRefusal(cluster, accessKey.metadata.namespace, settings)
  if (refusal !== undefined) return { phase: 'Failed', ...refusal }
  if (!hasKey(cluster.spec)) {
    return pending('ApiKeyMissing', `cluster ${namespace}/${name} has no apiKey to sign with`)
  }
  if (cluster.spec.apiKey?.jwtRbac !== true) {
    return pending('JwtRbacDisabled', `cluster ${namespace}/${name} has apiKey.jwtRbac false`)
  }
  if (signingKey === undefined) {
    return pending('SecretNotFound', `Secret ${namespace}/${keySecretName(name)} not found`)
  }
  return undefined
}

/**
 * The token that is there stays while something is missing, for it may still be good. Where the cluster
 * does not allow this namespace, it is deleted.
 */
function troubled(
  observed: Observed,
  { phase, reason, message }: Trouble,
  context: Context,
): Desired<AccessKeyStatus> {
  const name = secretNameOf(observed.accessKey)
  const held = observed.children.find(({ metadata }) => metadata.name === name)
  const status = {
    phase,
    ...(held !== undefined && reason !== 'NotAllowed' && issuedAs(held)),
    ...(phase === 'Failed' && { error: message }),
  }
  const waiting = answer(observed, [], status, context, { status: 'False', reason, message })
  const desired = reason === 'NotAllowed' ? withdrawn(waiting, observed) : waiting
  const isNews = conditionOf(observed.accessKey, 'Ready')?.message !== message
  if (WAITS.has(reason) || !isNews) return desired
  const event = { type: 'Warning' as const, reason, message, transition: message }
  return { ...desired, events: [eventOn(observed.accessKey, event, context.now)] }
}

function withdrawn(
  desired: Desired<AccessKeyStatus>,
  { children }: Observed,
): Desired<AccessKeyStatus> {
  const dropped = children.map(({ kind, metadata: { name } }) => ({
    ...{ kind, name },
    reason: 'the cluster does not allow this namespace',
  }))
  return { ...desired, children: [], ...(dropped.length > 0 && { dropped }) }
}

function answer(
  { accessKey, children }: Observed,
  fresh: Child[],
  status: AccessKeyStatus,
  { now }: Context,
  ready: { status: 'True' | 'False'; reason: string; message: string },
): Desired<AccessKeyStatus> {
  const names = new Set(fresh.map(({ metadata }) => metadata.name))
  const stay = children.filter(({ metadata }) => !names.has(metadata.name))
  return {
    status: { ...status, conditions: conditionsOf(accessKey, [{ type: 'Ready', ...ready }], now) },
    children: [...fresh, ...stay.map(keptSecret)],
    resyncAfterSeconds: ready.status === 'True' ? untilRenewal(status, now) : RETRY_SECONDS,
  }
}

/** Once a minute, and at the very time a token is to be renewed: a short one would expire before. */
function untilRenewal({ renewAt }: AccessKeyStatus, now: Date): number {
  if (renewAt === undefined) return KEY_RENEWAL_SECONDS
  return Math.min(KEY_RENEWAL_SECONDS, Math.max(-secondsSince(renewAt, now), 1))
}

/** One for each token that the Secret came to hold. */
function issued(
  accessKey: VecAccessKey,
  message: string,
  issuedAt: string | undefined,
  { now }: Context,
): KubernetesEvent {
  const transition = issuedAt ?? ''
  return eventOn(accessKey, { type: 'Normal', reason: 'TokenIssued', message, transition }, now)
}

/** One for each token that is signed with a key that is too short. */
function shortKey(
  accessKey: VecAccessKey,
  signingKey: string,
  { keyFingerprint = '', issuedAt = '' }: AccessKeyStatus,
  { now }: Context,
): KubernetesEvent[] {
  const length = Buffer.byteLength(signingKey)
  if (length >= SAFE_KEY_BYTES) return []
  const { generation } = accessKey.metadata
  const transition = `${keyFingerprint}/${issuedAt}/${generation}`
  const message = `the signing key has ${length} bytes; use at least ${SAFE_KEY_BYTES}`
  const event = { type: 'Warning' as const, reason: 'ShortApiKey', message }
  return [eventOn(accessKey, { ...event, transition }, now)]
}
