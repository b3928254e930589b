/** The Secret of an access key: its content, its annotations and its owner. */
import type { AccessKeyStatus, VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { keyFingerprint } from '../../crds/contract/api-keys.ts'
import { clusterConnection, serviceUrl } from '../../crds/contract/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { API_GROUP, LABELS, MANAGED_BY } from '../../crds/contract/names.ts'
import { secondsSince, timestamp } from '../conditions.ts'
import type { Child, Context } from '../protocol.ts'
import { secretNameOf } from './observe.ts'
import { currentLifetime, signToken, tokenClaims } from './token.ts'

const ISSUED = `${API_GROUP}/issued-at`
const EXPIRES = `${API_GROUP}/expires-at`
const RENEW = `${API_GROUP}/renew-at`
const FINGERPRINT = `${API_GROUP}/key-fingerprint`
const GENERATION = `${API_GROUP}/generation`
const OPERATOR_ANNOTATIONS = [ISSUED, EXPIRES, RENEW, FINGERPRINT, GENERATION]

/** The desired Secret. */
export async function tokenSecret(
  accessKey: VecAccessKey,
  cluster: VecCluster,
  key: string,
  { now, settings }: Context,
): Promise<Child> {
  const lifetime = currentLifetime(accessKey, now)
  const token = await signToken(tokenClaims(accessKey.spec, lifetime), key)
  const annotations = {
    [ISSUED]: formatSeconds(lifetime.issuedAt),
    ...(lifetime.expiresAt !== undefined && { [EXPIRES]: formatSeconds(lifetime.expiresAt) }),
    ...(lifetime.renewAt !== undefined && { [RENEW]: formatSeconds(lifetime.renewAt) }),
    [FINGERPRINT]: keyFingerprint(key),
    [GENERATION]: String(accessKey.metadata.generation),
  }
  return buildSecret(secretNameOf(accessKey), annotations, {
    token: base64(token),
    url: base64(serviceUrl(clusterConnection(cluster), settings.clusterDomain)),
  })
}

/**
 * An observed Secret that does not change. It is rebuilt from its own content, because an observed object
 * must not be returned under InPlace, and a child that is left out is deleted.
 */
export function unchangedSecret({ metadata, data = {} }: Secret): Child {
  const annotations = Object.fromEntries(
    OPERATOR_ANNOTATIONS.flatMap((name) => {
      const value = metadata.annotations?.[name]
      return value === undefined ? [] : [[name, value] as const]
    }),
  )
  return buildSecret(metadata.name, annotations, data)
}

/** The status fields stored in the Secret's annotations. */
export function statusFromSecret({ metadata }: Pick<Secret, 'metadata'>): AccessKeyStatus {
  const annotations = metadata.annotations ?? {}
  const { [ISSUED]: issuedAt, [EXPIRES]: expiresAt, [RENEW]: renewAt } = annotations
  const fingerprint = annotations[FINGERPRINT]
  return {
    secretRef: { name: metadata.name, key: 'token' },
    ...(issuedAt !== undefined && { issuedAt }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(renewAt !== undefined && { renewAt }),
    ...(fingerprint !== undefined && { keyFingerprint: fingerprint }),
  }
}

/** The current token has the same claims as the desired one and is valid until the latter is written. */
export function isRenewal({ metadata, data = {} }: Secret, desired: Child, now: Date): boolean {
  const [current = {}, next = {}] = [metadata.annotations, desired.metadata.annotations]
  const { url } = desired['data'] as Record<string, string>
  const isSame =
    current[GENERATION] === next[GENERATION] && current[FINGERPRINT] === next[FINGERPRINT]
  const expiresAt = current[EXPIRES]
  return (
    isSame && data['url'] === url && (expiresAt === undefined || secondsSince(expiresAt, now) < 0)
  )
}

function buildSecret(
  name: string,
  annotations: Record<string, string>,
  data: Record<string, string>,
): Child {
  const labels = { [LABELS.managedBy]: MANAGED_BY }
  const metadata = { name, labels, annotations }
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data }
}

function formatSeconds(seconds: number): string {
  return timestamp(new Date(seconds * 1000))
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
