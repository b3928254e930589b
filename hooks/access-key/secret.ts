/** The Secret of an access key: what it holds, what it says of itself, and whether one is ours. */
import type { AccessKeyStatus, VecAccessKey } from '../../crds/access-key.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { connectionOf, endpointOf } from '../../crds/connection.ts'
import type { Secret } from '../../crds/kubernetes.ts'
import { API_GROUP, LABELS, MANAGED_BY } from '../../crds/names.ts'
import { secondsSince, timestamp } from '../conditions.ts'
import type { Child } from '../protocol.ts'
import { secretNameOf } from './observe.ts'
import { claimsOf, fingerprintOf, lifetimeOf, sign } from './token.ts'

const ISSUED = `${API_GROUP}/issued-at`
const EXPIRES = `${API_GROUP}/expires-at`
const RENEW = `${API_GROUP}/renew-at`
const FINGERPRINT = `${API_GROUP}/key-fingerprint`
const GENERATION = `${API_GROUP}/generation`
const OURS = [ISSUED, EXPIRES, RENEW, FINGERPRINT, GENERATION]

/** The Secret as it should be now. */
export async function tokenSecret(
  accessKey: VecAccessKey,
  cluster: VecCluster,
  key: string,
  now: Date,
): Promise<Child> {
  const lifetime = lifetimeOf(accessKey, now)
  const token = await sign(claimsOf(accessKey.spec, lifetime), key)
  const annotations = {
    [ISSUED]: instant(lifetime.issuedAt),
    ...(lifetime.expiresAt !== undefined && { [EXPIRES]: instant(lifetime.expiresAt) }),
    ...(lifetime.renewAt !== undefined && { [RENEW]: instant(lifetime.renewAt) }),
    [FINGERPRINT]: fingerprintOf(key),
    [GENERATION]: String(accessKey.metadata.generation),
  }
  return secretOf(secretNameOf(accessKey), annotations, {
    token: base64(token),
    url: base64(endpointOf(connectionOf(cluster))),
  })
}

/**
 * An observed Secret that stays as it is. It is built anew from its own content: an observed object
 * must not be echoed under InPlace, and one that is left out is deleted.
 */
export function keptSecret({ metadata, data = {} }: Secret): Child {
  const annotations = Object.fromEntries(
    OURS.flatMap((name) => {
      const value = metadata.annotations?.[name]
      return value === undefined ? [] : [[name, value] as const]
    }),
  )
  return secretOf(metadata.name, annotations, data)
}

/** What the Secret says of its token. */
export function issuedAs({ metadata }: Pick<Secret, 'metadata'>): AccessKeyStatus {
  const said = metadata.annotations ?? {}
  const { [ISSUED]: issuedAt, [EXPIRES]: expiresAt, [RENEW]: renewAt } = said
  const keyFingerprint = said[FINGERPRINT]
  return {
    secretRef: { name: metadata.name, key: 'token' },
    ...(issuedAt !== undefined && { issuedAt }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(renewAt !== undefined && { renewAt }),
    ...(keyFingerprint !== undefined && { keyFingerprint }),
  }
}

/** Whether Metacontroller made this Secret for this resource, though its cache does not show it yet. */
export function isOwnedBy(secret: Secret, { metadata }: VecAccessKey): boolean {
  const owners = (secret.metadata as { ownerReferences?: { uid: string }[] }).ownerReferences
  return owners?.some(({ uid }) => uid === metadata.uid) === true
}

/** The token that is there says the same as the wanted one, and is good until that is written. */
export function isRenewal({ metadata, data = {} }: Secret, wanted: Child, now: Date): boolean {
  const [said = {}, next = {}] = [metadata.annotations, wanted.metadata.annotations]
  const { url } = wanted['data'] as Record<string, string>
  const isSame = said[GENERATION] === next[GENERATION] && said[FINGERPRINT] === next[FINGERPRINT]
  const expiresAt = said[EXPIRES]
  return (
    isSame && data['url'] === url && (expiresAt === undefined || secondsSince(expiresAt, now) < 0)
  )
}

function secretOf(
  name: string,
  annotations: Record<string, string>,
  data: Record<string, string>,
): Child {
  const labels = { [LABELS.managedBy]: MANAGED_BY }
  const metadata = { name, labels, annotations }
  return { apiVersion: 'v1', kind: 'Secret', metadata, type: 'Opaque', data }
}

function instant(seconds: number): string {
  return timestamp(new Date(seconds * 1000))
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
