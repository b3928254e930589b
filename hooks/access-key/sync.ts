/**
 * The desired state of a VecAccessKey: one Secret with a current token, the status and Events. Also what blocks it, such as a
 * Secret of that name that belongs to another owner.
 */
import type { AccessKeyStatus, VecAccessKey } from '../../crds/access-key.ts'
import { requiresApiKey } from '../../crds/contract/connection.ts'
import { KEY_RENEWAL_SECONDS, RETRY_SECONDS } from '../../crds/contract/limits.ts'
import { apiKeySecretName } from '../../crds/contract/names.ts'
import { isOwnedBy, type KubernetesEvent, type Secret } from '../../crds/kubernetes.ts'
import type { ConditionReason } from '../../crds/schema.ts'
import { getCondition, notCreatedMessage, secondsSince, setConditions } from '../conditions.ts'
import {
  clusterAccessBlocker,
  isNamespaceWatched,
  namespaceNotWatched,
} from '../cross-namespace.ts'
import { newEvent } from '../events.ts'
import type { Child, Context, Desired } from '../protocol.ts'
import { secretNameOf, type Observed } from './observe.ts'
import { isRenewal, statusFromSecret, tokenSecret, unchangedSecret } from './secret.ts'

/** The engine warns about shorter keys, and so does the operator. */
const SAFE_KEY_BYTES = 32

/** Why no token, or no new token, is issued. */
interface Blocker extends ConditionReason {
  phase: 'Pending' | 'Failed'
}

/** Asynchronous only because signing is; it does no I/O. */
export async function sync(
  observed: Observed,
  context: Context,
): Promise<Desired<AccessKeyStatus>> {
  const { accessKey, cluster, signingKey } = observed
  const blocker = firstBlocker(observed, context)
  if (blocker !== undefined || cluster === undefined || signingKey === undefined) {
    return blocked(observed, blocker ?? NO_SIGNING_KEY, context)
  }
  const secret = await tokenSecret(accessKey, cluster, signingKey, context)
  const name = secret.metadata.name
  const existing = observed.children.find(({ metadata }) => metadata.name === name)
  if (existing === undefined || !isUpToDate(existing, secret)) {
    // The status describes the current content of the Secret; it shows the new token once that is written.
    const message = isRefused(observed)
      ? notCreatedMessage(
          `Secret ${name}`,
          `kubectl describe vecaccesskey ${accessKey.metadata.name} -n ${accessKey.metadata.namespace}`,
        )
      : `Secret ${name} is being written`
    const status = { phase: phaseFor(existing), ...(existing && statusFromSecret(existing)) }
    if (existing !== undefined && isRenewal(existing, secret, context.now)) {
      const ready = { status: 'True' as const, ...tokenIssuedReason(name) }
      const renewing = desiredState(observed, [secret], status, context, ready)
      return { ...renewing, resyncAfterSeconds: RETRY_SECONDS }
    }
    return desiredState(observed, [secret], status, context, {
      status: 'False',
      reason: 'SecretNotWritten',
      message,
    })
  }
  const status = { phase: 'Ready' as const, ...statusFromSecret(existing) }
  const condition = tokenIssuedReason(name)
  const reported = desiredState(observed, [secret], status, context, {
    status: 'True',
    ...condition,
  })
  if (isReported(accessKey, status)) return reported
  const events = [
    tokenIssuedEvent(accessKey, condition.message, status, context),
    ...shortKeyEvents(accessKey, signingKey, status, context),
  ]
  return { ...reported, events }
}

/**
 * Whether the token was reported in an earlier sync. Another key or spec gives another token of the same time of
 * issue, and the status with `SecretNotWritten` may not be in the cache yet.
 */
function isReported(accessKey: VecAccessKey, status: AccessKeyStatus): boolean {
  const condition = getCondition(accessKey, 'Ready')
  return (
    condition?.reason === 'TokenIssued' &&
    condition.observedGeneration === accessKey.metadata.generation &&
    accessKey.status?.keyFingerprint === status.keyFingerprint &&
    accessKey.status?.issuedAt === status.issuedAt
  )
}

/** The answer before has created the Secret, and it does not exist. */
function isRefused({ accessKey, children, liveSecret }: Observed): boolean {
  const name = secretNameOf(accessKey)
  const exists = liveSecret !== undefined || children.some(({ metadata }) => metadata.name === name)
  return !exists && getCondition(accessKey, 'Ready')?.reason === 'SecretNotWritten'
}

function tokenIssuedReason(name: string): ConditionReason {
  return { reason: 'TokenIssued', message: `Secret ${name} holds a current token` }
}

/** Waiting is reported in the condition only, without an Event. */
const CONDITION_ONLY_REASONS = new Set([
  ...['ClusterNotFound', 'ClusterNotServed', 'SecretNotFound', 'ApiKeyNotReported'],
  'JwtRbacNotApplied',
])

function phaseFor(existing: Secret | undefined): 'Pending' | 'Ready' {
  return existing === undefined ? 'Pending' : 'Ready'
}

/** Signing is deterministic, so equal tokens have the same text. */
function isUpToDate({ data = {} }: Secret, desired: Child): boolean {
  const { token, url } = desired['data'] as Record<string, string>
  return data['token'] === token && data['url'] === url
}

const NO_SIGNING_KEY: Blocker = {
  phase: 'Pending',
  reason: 'SecretNotFound',
  message: 'the signing key does not exist yet',
}

function firstBlocker(observed: Observed, { settings }: Context): Blocker | undefined {
  const { accessKey, cluster, signingKey, unusableKey, liveSecret } = observed
  const { name, namespace = accessKey.metadata.namespace } = accessKey.spec.clusterRef
  const pending = (reason: string, message: string): Blocker => ({
    phase: 'Pending',
    reason,
    message,
  })

  if (liveSecret !== undefined && !isOwnedBy(liveSecret, accessKey.metadata.uid)) {
    const message = `Secret ${liveSecret.metadata.name} already exists and is not owned by this VecAccessKey: delete it, or use another spec.secretName`
    return { phase: 'Failed', reason: 'SecretNotOurs', message }
  }
  if (!isNamespaceWatched(settings, namespace)) {
    return pending('ClusterNotServed', namespaceNotWatched(`cluster ${namespace}/${name}`))
  }
  if (cluster === undefined)
    return pending('ClusterNotFound', `cluster ${namespace}/${name} not found`)
  const forbidden = clusterAccessBlocker(cluster, accessKey.metadata.namespace, settings)
  if (forbidden !== undefined) return { phase: 'Failed', ...forbidden }
  if (!requiresApiKey(cluster.spec)) {
    return pending('ApiKeyMissing', `cluster ${namespace}/${name} has no apiKey to sign with`)
  }
  if (cluster.spec.apiKey?.jwtRbac !== true) {
    return pending('JwtRbacDisabled', `cluster ${namespace}/${name} has apiKey.jwtRbac false`)
  }
  if (unusableKey === 'unreported') {
    const message = `no helm run of cluster ${namespace}/${name} has reported its API key yet`
    return pending('ApiKeyNotReported', message)
  }
  if (unusableKey === 'unaccepted') {
    const message = `no helm run of cluster ${namespace}/${name} has applied apiKey.jwtRbac yet`
    return pending('JwtRbacNotApplied', message)
  }
  if (unusableKey === 'foreign') {
    const message = `no helm run has published the key in Secret ${namespace}/${apiKeySecretName(name)}: no token is signed with it`
    return pending('ForeignApiKey', message)
  }
  if (signingKey === undefined) {
    return pending('SecretNotFound', `Secret ${namespace}/${apiKeySecretName(name)} not found`)
  }
  return undefined
}

/**
 * The existing token is kept while something is missing, because it may still be valid. If the cluster does
 * not allow this namespace, it is deleted.
 */
function blocked(
  observed: Observed,
  { phase, reason, message }: Blocker,
  context: Context,
): Desired<AccessKeyStatus> {
  const name = secretNameOf(observed.accessKey)
  const existing = observed.children.find(({ metadata }) => metadata.name === name)
  const status = {
    phase,
    ...(existing !== undefined && reason !== 'RefNotPermitted' && statusFromSecret(existing)),
    ...(phase === 'Failed' && { error: message }),
  }
  const pending = desiredState(observed, [], status, context, { status: 'False', reason, message })
  const desired = reason === 'RefNotPermitted' ? revoked(pending, observed) : pending
  const isNewBlocker = getCondition(observed.accessKey, 'Ready')?.message !== message
  if (CONDITION_ONLY_REASONS.has(reason) || !isNewBlocker) return desired
  const event = { type: 'Warning' as const, reason, message, transition: message }
  return { ...desired, events: [newEvent(observed.accessKey, event, context.now)] }
}

function revoked(
  desired: Desired<AccessKeyStatus>,
  { children }: Observed,
): Desired<AccessKeyStatus> {
  const pruned = children.map(({ kind, metadata: { name } }) => ({
    ...{ kind, name },
    reason: 'the cluster does not allow this namespace',
  }))
  return { ...desired, children: [], ...(pruned.length > 0 && { pruned }) }
}

function desiredState(
  { accessKey, children }: Observed,
  changed: Child[],
  status: AccessKeyStatus,
  { now }: Context,
  ready: { status: 'True' | 'False'; reason: string; message: string },
): Desired<AccessKeyStatus> {
  const names = new Set(changed.map(({ metadata }) => metadata.name))
  const unchanged = children.filter(({ metadata }) => !names.has(metadata.name))
  return {
    status: { ...status, conditions: setConditions(accessKey, [{ type: 'Ready', ...ready }], now) },
    children: [...changed, ...unchanged.map(unchangedSecret)],
    resyncAfterSeconds: ready.status === 'True' ? secondsUntilRenewal(status, now) : RETRY_SECONDS,
  }
}

/** At most a minute, and not later than the renewal: a short-lived token would expire before. */
function secondsUntilRenewal({ renewAt }: AccessKeyStatus, now: Date): number {
  if (renewAt === undefined) return KEY_RENEWAL_SECONDS
  return Math.min(KEY_RENEWAL_SECONDS, Math.max(-secondsSince(renewAt, now), 1))
}

/** One Event for each token written to the Secret. */
function tokenIssuedEvent(
  accessKey: VecAccessKey,
  message: string,
  status: AccessKeyStatus,
  { now }: Context,
): KubernetesEvent {
  const transition = tokenId(accessKey, status)
  return newEvent(accessKey, { type: 'Normal', reason: 'TokenIssued', message, transition }, now)
}

/** One Event for each token signed with a key that is too short. */
function shortKeyEvents(
  accessKey: VecAccessKey,
  signingKey: string,
  status: AccessKeyStatus,
  { now }: Context,
): KubernetesEvent[] {
  const length = Buffer.byteLength(signingKey)
  if (length >= SAFE_KEY_BYTES) return []
  const transition = tokenId(accessKey, status)
  const message = `the signing key has ${length} bytes; use at least ${SAFE_KEY_BYTES}`
  const event = { type: 'Warning' as const, reason: 'ShortApiKey', message }
  return [newEvent(accessKey, { ...event, transition }, now)]
}

/** Identifies a token for its Events. */
function tokenId(
  { metadata }: VecAccessKey,
  { keyFingerprint, issuedAt }: AccessKeyStatus,
): string {
  return [keyFingerprint, issuedAt, metadata.generation].join('/')
}
