/** Clusters and Secrets around a resource under test, in the states that a case names. */
import { API_VERSION } from '../../../crds/contract/names.ts'
import type { ApiObject } from '../../world/client.ts'
import { clusterSpec } from '../../builders.ts'
import type { Stage } from '../stage.ts'

export const HOME = 'fuzz'
export const ELSEWHERE = 'other'
const HELD = 'fuzz.test/held'

export type ClusterState = 'absent' | 'deleting' | 'Pending' | 'Upgrading' | 'Running' | 'split'
export type Access = 'own' | 'allowed' | 'denied'
export type SecretState = 'absent' | 'empty' | 'token' | 'good'

export function namespaceOf(access: Access): string {
  return access === 'own' ? HOME : ELSEWHERE
}

/** The VecCluster in this state; whatever was there before is replaced. */
export function putCluster(
  stage: Stage,
  { name = 'main', state, access }: { name?: string; state: ClusterState; access: Access },
  spec: object = { apiKey: { autoGenerate: true, jwtRbac: true } },
): void {
  const metadata = {
    name,
    namespace: namespaceOf(access),
    annotations: {
      'vec-operator.dev/allowed-namespaces': access === 'denied' ? 'elsewhere' : HOME,
    },
  }
  const at = stage.clock.now().toISOString()
  const condition = (type: string, reason: string, status: string) => {
    return { type, reason, status, message: 'as the test says', lastTransitionTime: at }
  }
  const isSplit = state === 'split'
  const phase = ['Pending', 'Upgrading'].includes(state) ? state : 'Running'
  const conditions = [
    condition('Ready', 'AllReplicasReady', 'True'),
    isSplit
      ? condition('Consensus', 'SplitBrain', 'False')
      : condition('Consensus', 'ConsensusWorking', 'True'),
  ]
  const object = {
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata,
    spec: clusterSpec(spec),
    status: { phase, conditions },
  }
  if (state === 'absent') {
    drop(stage, object)
    return
  }
  const held = { ...metadata, ...(state === 'deleting' && { finalizers: [HELD] }) }
  replace(stage, { ...object, metadata: held })
  if (state !== 'deleting') return
  stage.resources.delete(stage.resources.kinds.of(API_VERSION, 'VecCluster'), metadata)
}

/** Opaque with these keys; `empty` has them without a value, `token` is of a service account. */
export function putSecret(
  stage: Stage,
  { namespace, name, state }: { namespace: string; name: string; state: SecretState },
  keys: readonly string[],
): void {
  const value = state === 'empty' ? '' : Buffer.from(VALUE).toString('base64')
  const object = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace },
    type: state === 'token' ? 'kubernetes.io/service-account-token' : 'Opaque',
    data: Object.fromEntries(keys.map((key) => [key, value])),
  }
  // The type of a Secret cannot be changed.
  drop(stage, object)
  if (state !== 'absent') stage.put(object)
}

/** Long enough for a key to sign with. */
export const VALUE = 'a-key-of-thirty-two-letters-long'

export function replace(stage: Stage, object: ApiObject): ApiObject {
  const before = stage.find(object)
  if (before === undefined) return stage.put(object)
  // The same object keeps its uid, as after an update.
  const { metadata } = object
  stage.change(before, (live) => ({
    ...live,
    ...object,
    metadata: { ...live.metadata, ...metadata },
  }))
  if (object.status === undefined) return before
  stage.change(before, (live) => ({ ...live, status: object.status }), 'status')
  return before
}

/** Removes it at once, whatever holds it. */
export function drop(stage: Stage, object: ApiObject): void {
  const kind = stage.resources.kinds.of(object.apiVersion, object.kind)
  const found = stage.find(object)
  if (found !== undefined) stage.resources.store.remove(kind, found)
}
