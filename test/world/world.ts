/**
 * What a scenario may do to a world. The embedded world (Node only) and the real one (test/cluster)
 * offer the same, so that a scenario runs unchanged in both.
 */
import type { AnyObject } from '../../crds/kubernetes.ts'

/** Identity of an object in the API. */
export interface Reference {
  apiVersion: string
  kind: string
  namespace: string
  name: string
}

/** A call on the S3 store, as it came. */
export interface BucketCall {
  method: string
  key: string
  query: Record<string, string>
}

/** What the store does instead of answering as it should. */
export type BucketFault =
  /** Refused, after the body was read. */
  | { status: number; code: string }
  /** The connection is cut. */
  | { cut: true }
  /** Goes on once this is done. */
  | { hold: Promise<unknown> }

/** A bucket of the world's S3 store, read and modified from outside the operator. */
export interface WorldBucket {
  readonly name: string
  /** The value of `spec.storage.s3` for a resource in a namespace that has the Secret. */
  readonly target: Readonly<Record<string, unknown>> & { prefix: string }
  /** For commands of the kubectl plugin. */
  readonly access: { endpoint: string; accessKeyId: string; secretAccessKey: string }
  /** Creates the Secret in another namespace, or recreates it. */
  grantAccess(namespace: string): Promise<void>
  keys(prefix?: string): Promise<string[]>
  /** The value of an object of JSON. */
  json(key: string): Promise<unknown>
  put(key: string, body: string): Promise<void>
  remove(key: string): Promise<void>
  /** Calls of the operator and its Jobs so far, oldest first. */
  calls(): BucketCall[]
  /** Decides call by call; without a decision all is well again. */
  misbehave(decide?: (call: BucketCall) => BucketFault | undefined): void
}

/** Calls of another user on the API server. */
export interface User {
  create(object: object): Promise<AnyObject>
  get(reference: Reference): Promise<AnyObject | undefined>
  list(apiVersion: string, kind: string, selection: { namespace: string }): Promise<unknown>
  /** Merge-patches an object, or a subresource of it such as `scale`. */
  patch(reference: Reference, patch: object, options?: { subresource?: string }): Promise<AnyObject>
  delete(reference: Reference): Promise<void>
  /** The answer's text to any call, such as a pod's log. */
  raw(method: string, path: string): Promise<string>
}

/** What a tenant may do in its namespace: Kubernetes' role of that name, or all with our kinds and nothing else. */
export type TenantRole = 'edit' | 'view' | 'kinds'

/** A state that may last for a moment only. */
export interface PassingState {
  what: string
  isReached: (object: AnyObject | undefined) => boolean
  seconds?: number
}

/** Thrown when this world does not support what a scenario needs; the message says why. */
export class NotSupported extends Error {}

export interface World {
  readonly kind: 'embedded' | 'cluster'
  /** What is real here and what is a stand-in, a line each. */
  readonly components: string[]
  /** Two versions of the engine that can be installed here, one patch apart. */
  readonly versions: { older: string; newer: string }
  /** Calls the engine on one pod, through the API server's pod proxy; by default with the key it runs. */
  engine(
    pod: { namespace: string; name: string },
    method: string,
    path: string,
    body?: object,
    key?: string,
  ): Promise<unknown>
  /** A fresh namespace; it is deleted when the world closes. */
  namespace(purpose: string): Promise<string>
  /** A fresh bucket of that name, and in the namespace the Secret `bucket` with the keys to it. */
  bucket(namespace: string): Promise<WorldBucket>
  /** Creates the object, or replaces spec, data, labels and annotations of the one that is there. */
  apply(object: object): Promise<AnyObject>
  get(reference: Reference): Promise<AnyObject | undefined>
  list(apiVersion: string, kind: string, namespace: string): Promise<AnyObject[]>
  /** Merge-patches an object. */
  patch(reference: Reference, patch: object): Promise<AnyObject>
  /** Marks for deletion and returns immediately; foreground waits for dependants as the API does. */
  delete(reference: Reference, propagation?: 'Background' | 'Foreground'): Promise<void>
  /**
   * Waits until the predicate holds, moving the clock where the world owns it; fails with the last
   * state seen after this many seconds of the world's time. Where that is the machine's, it is never less
   * than five minutes.
   */
  waitFor(
    reference: Reference,
    what: string,
    predicate: (object: AnyObject | undefined) => boolean,
    seconds?: number,
  ): Promise<AnyObject | undefined>
  /**
   * As `waitFor`, but every state since before this action counts, which leads to the state: on a slow machine it
   * may be past when the action returns.
   */
  waitForPassing(
    reference: Reference,
    state: PassingState,
    action: () => Promise<unknown>,
  ): Promise<AnyObject | undefined>
  /**
   * A user with a ServiceAccount of its own in this namespace and no rights elsewhere. What it may not do is an
   * ApiError with status 403.
   */
  tenant(namespace: string, role: TenantRole): Promise<User>
  /** A user with the token of an existing ServiceAccount, such as that of a Job. */
  user(account: { namespace: string; name: string }): Promise<User>
  /** The world's time. */
  now(): Date
  /** Lets so much of it pass. */
  advance(seconds: number): Promise<void>
  /**
   * What a storage driver and the kubelet do: the bound claims of a namespace get the capacity that they
   * request. Nothing in a world whose controllers do it.
   */
  resizeVolumes(namespace: string): Promise<void>
  /** Log of the pods of a Job, oldest first. */
  logs(namespace: string, job: string): Promise<string>
  /** Writes of the operator and its Jobs on objects of a namespace so far, a line each. */
  writes(namespace: string): Promise<string[]>
  /** Log of the hook service so far. */
  serviceLog(): Promise<string>
  /** Misfortunes. */
  faults: {
    /** Kills the running pod of a Job, as a node that dies would. */
    killJobPod(namespace: string, job: string): Promise<void>
    /** Looks up the processes of a pod; they are stopped at once when the answer is called. */
    prepareFreeze(namespace: string, pod: string): Promise<() => boolean>
    stopService(): Promise<void>
    startService(): Promise<void>
    /** Replaces the service by one of another release, as a helm upgrade would. */
    upgradeService(version: string): Promise<void>
    restartControllers(): Promise<void>
    /** Another token for the hooks, as a user rotates it while everything runs. */
    rotateToken(): Promise<void>
    /** What every call of the service on the API server meets, until it is called without. */
    degradeApi(mode?: 'busy' | 'slow'): Promise<void>
    /** Takes one engine pod out of service until `heal`; readiness follows. */
    breakPod(namespace: string, pod: string): Promise<void>
    healPod(namespace: string, pod: string): Promise<void>
  }
  /** Ends every process and deletes everything it made. */
  close(): Promise<void>
}
