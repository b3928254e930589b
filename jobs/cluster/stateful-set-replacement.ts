/**
 * Replaces a StatefulSet whose volume claim templates must change: they are immutable, so it is deleted
 * without its pods, and one with the same pod template adopts them. The pods keep running, because their
 * revision is that of the new StatefulSet too.
 *
 * While there is no StatefulSet, nothing restarts a pod. Its successor is therefore stored in a Secret
 * before the deletion, and created by the next process if this one is killed. It is created from the live
 * object, not by helm, so that checks and a gated rollout find the StatefulSet as it was.
 */
import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { PlannedVolume } from '../../crds/contract/job.ts'
import {
  API_VERSION,
  LABELS,
  MANAGED_BY,
  statefulSetRecordName,
} from '../../crds/contract/names.ts'
import { type ClaimTemplate, Secret, StatefulSet } from '../../crds/kubernetes.ts'
import { secrets, statefulSets } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'
import { poll } from '../retry.ts'
import { readStatefulSet } from './shards/stateful-set.ts'

/** The garbage collector removes the owner references, and the StatefulSet controller adopts the pods. */
const STEP_TIMEOUT_MS = 120_000
const STEP_POLL_MS = 500

const RECORD_TYPE = 'vec-operator.dev/stateful-set'
const RECORD_KEY = 'statefulSet'

/** The volumes could not grow, or their StatefulSet not be replaced: the attempt ends and is repeated. */
export class VolumesNotGrown extends Error {
  readonly code = 'VolumesNotGrown'
}

/** The release, and the VecCluster whose deletion removes the record. */
export interface ReplacementPlan {
  namespace: string
  name: string
  uid: string
  release: string
}

type Tools = Pick<Dependencies, 'kubernetes' | 'time' | 'signal' | 'log' | 'reporter'>

const StoredStatefulSet = Type.Composite([
  StatefulSet,
  Type.Object({ spec: Type.Object({ template: Type.Object({}) }) }),
])

/** What the claim template of a volume is to have. */
export type TemplateChange = Pick<PlannedVolume, 'size' | 'attributesClass'>

/** Replaces the StatefulSet by one with these claim templates, by their names. */
export async function replaceStatefulSet(
  plan: ReplacementPlan,
  live: StatefulSet,
  { templates, tools }: { templates: ReadonlyMap<string, TemplateChange>; tools: Tools },
): Promise<void> {
  const { namespace, release } = plan
  const { uid } = live.metadata
  if (uid === undefined) throw new VolumesNotGrown(`StatefulSet ${release} has no uid`)
  await storeRecord(plan, successorOf(live, templates), tools)
  await resetGeneration(tools)
  tools.log.info({ statefulSet: release }, 'replacing the StatefulSet; its pods keep running')
  await tools.kubernetes.delete(statefulSets(namespace), release, {
    uid,
    propagation: 'Orphan',
  })
  await finishReplacement(plan, tools)
}

/**
 * Completes a replacement that this process or a killed one has begun: creates the StatefulSet if it is
 * missing, waits until it has adopted the pods, and removes the record.
 */
export async function finishReplacement(plan: ReplacementPlan, tools: Tools): Promise<void> {
  const { namespace, release } = plan
  const name = statefulSetRecordName(plan.name)
  const secret = await tools.kubernetes.get(secrets(namespace), name, Secret)
  if (secret?.type !== RECORD_TYPE) return
  const successor = readRecord(secret, plan)
  if (successor !== undefined) {
    await waitUntilDeleted(plan, tools)
    if ((await readStatefulSet(plan, tools)) === undefined) await createSet(plan, successor, tools)
    await waitForAdoption(plan, tools)
    tools.log.info({ statefulSet: release }, 'the StatefulSet has its pods')
  }
  const { uid } = secret.metadata
  await tools.kubernetes.delete(secrets(namespace), name, uid === undefined ? {} : { uid })
}

/** The same object with other volumes, and without what the API server adds to a new one. */
function successorOf(
  live: StatefulSet,
  templates: ReadonlyMap<string, TemplateChange>,
): StatefulSet {
  const { name, namespace, labels, annotations, ownerReferences } = live.metadata
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(labels !== undefined && { labels }),
      ...(annotations !== undefined && { annotations }),
      ...(ownerReferences !== undefined && { ownerReferences }),
    },
    spec: {
      ...live.spec,
      volumeClaimTemplates: (live.spec.volumeClaimTemplates ?? []).map((template) => {
        const change = templates.get(template.metadata.name)
        return change === undefined ? template : changeTemplate(template, change)
      }),
    },
  }
}

function changeTemplate(template: ClaimTemplate, change: TemplateChange): ClaimTemplate {
  const { size: storage, attributesClass } = change
  const { resources } = template.spec
  return {
    ...template,
    spec: {
      ...template.spec,
      resources: { ...resources, requests: { ...resources?.requests, storage } },
      ...(attributesClass !== undefined && { volumeAttributesClassName: attributesClass }),
    },
  }
}

/** A Secret, like helm's own records: a user who can write it can change the release as well. */
async function storeRecord(
  { namespace, name, uid }: ReplacementPlan,
  successor: StatefulSet,
  { kubernetes }: Tools,
): Promise<void> {
  const secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: statefulSetRecordName(name),
      namespace,
      labels: { [LABELS.managedBy]: MANAGED_BY },
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'VecCluster', name, uid }],
    },
    type: RECORD_TYPE,
    data: { [RECORD_KEY]: Buffer.from(JSON.stringify(successor)).toString('base64') },
  }
  try {
    await kubernetes.create(secrets(namespace), secret)
  } catch (error) {
    if (!(error instanceof KubernetesError) || error.status !== 409) throw error
    const { name } = secret.metadata
    throw new VolumesNotGrown(
      `Secret ${name} already exists and is not a record of this operator: delete it`,
      { cause: error },
    )
  }
}

/** Undefined for a record of an earlier VecCluster of the same name. */
function readRecord(secret: Secret, { release, uid }: ReplacementPlan): StatefulSet | undefined {
  if (!secret.metadata.ownerReferences?.some((owner) => owner.uid === uid)) return undefined
  const object = parseJson(Buffer.from(secret.data?.[RECORD_KEY] ?? '', 'base64').toString())
  return Value.Check(StoredStatefulSet, object) && object.metadata.name === release
    ? object
    : undefined
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Until the garbage collector has released the pods, the name is taken. */
async function waitUntilDeleted(plan: ReplacementPlan, tools: Tools): Promise<void> {
  await pollStep(tools, `StatefulSet ${plan.release} is still being deleted`, async () => {
    const set = await readStatefulSet(plan, tools)
    return set?.metadata.deletionTimestamp === undefined ? true : undefined
  })
}

async function createSet(
  { namespace, release }: ReplacementPlan,
  successor: StatefulSet,
  { kubernetes, log }: Tools,
): Promise<void> {
  log.info({ statefulSet: release }, 'creating the StatefulSet with the new volumes')
  try {
    await kubernetes.create(statefulSets(namespace), successor)
  } catch (error) {
    // It exists: an earlier attempt of this process got no answer.
    if (!(error instanceof KubernetesError) || error.status !== 409) throw error
  }
}

/**
 * The controller adopts the pods before it writes a status. helm, and above all `helm uninstall`, must not
 * find pods that have no owner.
 */
async function waitForAdoption(plan: ReplacementPlan, tools: Tools): Promise<void> {
  const message = `the StatefulSet controller has not adopted the pods of StatefulSet ${plan.release}`
  await pollStep(tools, message, async () => {
    const set = await readStatefulSet(plan, tools)
    const { observedGeneration = -1 } = set?.status ?? {}
    return observedGeneration >= (set?.metadata.generation ?? 0) ? true : undefined
  })
}

async function pollStep<Result>(
  { time, signal }: Tools,
  failure: string,
  check: () => Promise<Result | undefined>,
): Promise<Result> {
  const deadline = time.monotonicMs() + STEP_TIMEOUT_MS
  return poll({ time, signal, pauseMs: STEP_POLL_MS }, async () => {
    const result = await check()
    if (result === undefined && time.monotonicMs() >= deadline) {
      throw new VolumesNotGrown(`${failure} after ${STEP_TIMEOUT_MS / 60_000} minutes`)
    }
    return result
  })
}

/**
 * The hooks take a StatefulSet with a lower generation than the reported one for an outdated object from a
 * cache. That of the new StatefulSet starts at 1.
 */
async function resetGeneration({ reporter }: Tools): Promise<void> {
  const applied = reporter.previous?.applied
  if (applied === undefined) return
  await reporter.checkpoint('the volumes have changed', {
    applied: { ...applied, statefulSetGeneration: 1 },
  })
}
