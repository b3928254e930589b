/**
 * Events on a resource. Their names are derived from their content, so that a repeated sync writes
 * none twice.
 */
import { shortHash } from '../crds/contract/names.ts'
import type { KubernetesEvent } from '../crds/kubernetes.ts'
import type { ConditionReason } from '../crds/schema.ts'
import { timestamp } from './conditions.ts'

export interface InvolvedObject {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string; uid: string }
}

/** Maximum length of an Event's message; the Job's log has the full text. */
const MAX_MESSAGE = 1000

/**
 * An Event on a resource. `transition` identifies the occurrence (a run, a generation): the same
 * transition gives the same name, and the API server answers a duplicate with AlreadyExists.
 */
export function newEvent(
  { apiVersion, kind, metadata }: InvolvedObject,
  event: { type: 'Normal' | 'Warning'; reason: string; message: string; transition: string },
  now: Date,
): KubernetesEvent {
  const { name, namespace, uid } = metadata
  const { type, reason, message, transition } = event
  return {
    metadata: { name: `${name}.${shortHash(uid, reason, transition)}`, namespace },
    involvedObject: { apiVersion, kind, name, namespace, uid },
    type,
    reason,
    message: message.slice(0, MAX_MESSAGE),
    at: timestamp(now),
  }
}

/** An Event that occurs at most once in the life of a resource. */
export function normalEvent(
  target: InvolvedObject,
  event: ConditionReason,
  now: Date,
): KubernetesEvent {
  return newEvent(target, { type: 'Normal', ...event, transition: 'once' }, now)
}

/** A warning, emitted again if its message changes. */
export function warningEvent(
  target: InvolvedObject,
  { reason, message }: ConditionReason,
  now: Date,
): KubernetesEvent {
  return newEvent(target, { type: 'Warning', reason, message, transition: shortHash(message) }, now)
}

/**
 * A warning on a namespace that is being deleted, about a resource in it: the API server creates no
 * Event in that namespace any more.
 */
export function namespaceWarning(
  { metadata: { namespace, uid } }: InvolvedObject,
  { reason, message }: ConditionReason,
  now: Date,
): KubernetesEvent {
  return {
    metadata: { name: `${namespace}.${shortHash(uid, reason)}`, namespace: 'default' },
    // Like the kubelet for a node, with the name as uid: the uid of the namespace is not known.
    involvedObject: { apiVersion: 'v1', kind: 'Namespace', name: namespace, uid: namespace },
    type: 'Warning',
    reason,
    message: message.slice(0, MAX_MESSAGE),
    at: timestamp(now),
  }
}
