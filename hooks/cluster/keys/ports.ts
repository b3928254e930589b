/** The ports of the key rotation, what is observed through them, and the decision that follows from it. */
import type { PlannedKeys } from '../../../crds/contract/api-keys.ts'
import type { Connection } from '../../../crds/contract/connection.ts'
import type { Secret } from '../../../crds/kubernetes.ts'
import type { NamespacedName } from '../../../crds/schema.ts'

export interface KeyPorts {
  /** A Secret, at most 60 s old; undefined if it does not exist. */
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** A Secret, read live. */
  liveSecret(namespace: string, name: string): Promise<Secret | undefined>
  /** Calls every node with each of these keys, given by fingerprint. */
  nodeKeys(
    connection: Connection,
    keys: ReadonlyMap<string, string>,
    signal: AbortSignal,
  ): Promise<NodeKeys[]>
  /**
   * VecAccessKeys of the allowed namespaces whose current token was signed with this key, as `<namespace>/<name>`.
   * Throws if one of them cannot be read.
   */
  tokensSignedWith(
    cluster: NamespacedName,
    fingerprint: string,
    isAllowed: (namespace: string) => boolean,
  ): Promise<string[]>
  /** Removes all other keys from the Secret of the operator; a conflict is not an error. */
  keepKeys(cluster: NamespacedName, fingerprints: readonly string[]): Promise<void>
}

/** Which keys a node accepted when it was asked; without `accepts`, it did not answer. */
export interface NodeKeys {
  ordinal: number
  accepts?: string[]
}

/** What the nodes have answered, for the keys that they were asked about. */
export interface KeyAnswers {
  asked: string[]
  nodes: NodeKeys[]
  /** When they were asked. */
  at: string
}

/** What is read for a cluster with `spec.apiKey.rotation`. */
export interface ObservedKeys {
  /** How long the former key is accepted at least. */
  overlapSeconds: number
  /** Fingerprint of the key in `vec-<name>-apikey`. */
  published?: string
  /** metadata.resourceVersion of that Secret. */
  publishedVersion?: string
  /** Keys in the Secret of the operator, by fingerprint. */
  stored: ReadonlyMap<string, string>
  /** Absent before the first ones, and while the nodes cannot be asked. */
  answers?: KeyAnswers
  /** VecAccessKeys with a token that the former key has signed; read before nodes lose that key. */
  formerTokens?: FormerTokens
}

/** `unknown` if they could not be listed. */
export type FormerTokens = string[] | 'unknown'

export interface PlannedRotation {
  plan: PlannedKeys
  /** Clients may be refused: nodes do not accept the published key before and after the run. */
  isGap: boolean
  /** The key that replaces the published one, or waits for its turn. */
  next?: string
  former?: string
}

export interface Overlap {
  /** Since when clients could read the published key while all nodes accepted the former, too. */
  since: string
  end: string
  /** VecAccessKeys that the former key stays for. */
  formerTokens?: FormerTokens
}

export type DecidedRotation = PlannedRotation &
  (
    | { step: 'Overlap'; overlap: Overlap }
    | {
        step: 'Current' | 'Adding' | 'Publishing' | 'Removing' | 'NoSecondKey'
        overlap?: Overlap
      }
  )

/** What follows from the keys. */
export type KeyRotation = DecidedRotation & {
  keys: ObservedKeys
  /** Another client wrote the published key again, shortly after a helm run: the next run waits. */
  isResting?: true
}
