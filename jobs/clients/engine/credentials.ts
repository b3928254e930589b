/**
 * Credentials of an engine: the API key that its pods run with, which may not be the one that a user has written, and the
 * certificate authority in `ca.crt` of its TLS Secret. A Job reads them from mounted Secret files, others from the Secrets. They
 * are read each time, so that a rotated credential is noticed. `KeyRotation` waits
 * for the new key while a key that worked is being rotated.
 */
import type { Connection } from '../../../crds/contract/connection.ts'
import { API_KEY_SECRET_KEY } from '../../../crds/contract/names.ts'
import { secretValue, type Secret } from '../../../crds/kubernetes.ts'
import type { Clock } from '../../clock.ts'
import { credentialFile, readSecretFile } from '../kubernetes/access.ts'

/** The content of the Secrets that a call needs. */
export interface EngineCredentials {
  key?: string | undefined
  /** Certificate authority, PEM. */
  ca?: string | undefined
}

/** Where a credential is mounted: the folder of its Secret and the key in it. */
export interface MountedKey {
  credential: string
  file: string
}

/** Mounted credentials of the cluster that a Job works on. */
export const CLUSTER_SECRET_FILES = {
  key: { credential: 'engine', file: API_KEY_SECRET_KEY },
  ca: { credential: 'tls', file: 'ca.crt' },
}

/** The API key and the certificate authority of an engine; each may be missing. */
export function mountedEngineCredentials(
  env: NodeJS.ProcessEnv = process.env,
  { key, ca }: { key?: MountedKey | undefined; ca?: MountedKey | undefined } = CLUSTER_SECRET_FILES,
): () => Promise<EngineCredentials> {
  // The Secret is optional: an engine without a key has none.
  const read = (mounted: MountedKey | undefined) =>
    (mounted && readSecretFile(credentialFile(env, mounted.credential, mounted.file))?.trim()) ||
    undefined
  return async () => ({ key: read(key), ca: read(ca) })
}

export type ReadSecret = (namespace: string, name: string) => Promise<Secret | undefined>

/** The key that the pods run with, not the one a user wrote: they differ until helm has run. */
export async function secretEngineCredentials(
  { namespace, key, caSecret }: Connection,
  read: ReadSecret,
): Promise<EngineCredentials> {
  const [keySecret, tlsSecret] = await Promise.all([
    key && read(namespace, key.secret),
    caSecret === undefined ? undefined : read(namespace, caSecret),
  ])
  return { key: key && secretValue(keySecret, key.key), ca: secretValue(tlsSecret, 'ca.crt') }
}

export interface KeyRotationOptions {
  /** Reads what is currently mounted. */
  read: () => Promise<EngineCredentials>
  time: Pick<Clock, 'sleep'>
  signal: AbortSignal
  /** How long to wait, in total, for a new key after a working key is rejected. */
  limitMs: number
  onWaiting: () => void
}

const POLL_MS = 5_000

export class KeyRotation {
  readonly #options: KeyRotationOptions
  /** Keys that at least one node accepted. */
  readonly #acceptedKeys = new Set<string | undefined>()
  /** The key that each node accepted last: nodes differ while pods are being restarted. */
  readonly #keyByNode = new Map<string, string | undefined>()
  #remainingMs: number

  constructor(options: KeyRotationOptions) {
    this.#options = options
    this.#remainingMs = options.limitMs
  }

  /** The credentials to try first with a node. */
  async credentialsFor(node: string): Promise<EngineCredentials> {
    const mounted = await this.#options.read()
    return this.#keyByNode.has(node) ? { ...mounted, key: this.#keyByNode.get(node) } : mounted
  }

  markAccepted(node: string, { key }: EngineCredentials): void {
    this.#keyByNode.set(node, key)
    if (this.#acceptedKeys.has(key)) return
    this.#acceptedKeys.add(key)
    // A new rotation, not the previous one.
    this.#remainingMs = this.#options.limitMs
  }

  /**
   * The credentials to try next after these keys were rejected, one at a time; undefined if there
   * is nothing left to wait for. Once all were tried, it waits and starts over.
   */
  async next(tried: Set<string | undefined>): Promise<EngineCredentials | undefined> {
    const mounted = await this.#options.read()
    const untried = [mounted.key, ...this.#acceptedKeys].filter((key) => !tried.has(key))
    if (untried.length === 0) {
      // A key that never worked is wrong and remains wrong.
      if (this.#acceptedKeys.size === 0 || this.#remainingMs <= 0) return undefined
      this.#options.onWaiting()
      await this.#options.time.sleep(POLL_MS, this.#options.signal)
      this.#remainingMs -= POLL_MS
      tried.clear()
      return this.next(tried)
    }
    const [key] = untried
    tried.add(key)
    return { ...mounted, key }
  }
}
