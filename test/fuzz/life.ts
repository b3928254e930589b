/** The life of a resource: made, looked at, its Jobs run and end, and deleted. */
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import type { Resource } from '../../crds/crd.ts'
import { finalizerName } from '../../metacontroller/controllers.ts'
import { ApiFailure } from '../world/api/failure.ts'
import type { ApiObject } from '../world/client.ts'
import { isFinalized } from '../world/loop/in-memory.ts'
import type { Remembered, Stage } from './stage.ts'
import { releaseOf, surroundingsOf } from './surroundings.ts'

const NAMESPACE = 'fuzz'
/** Leases are waited for twice, so a Job may take some passes to be made. */
const PASSES = 5
const PASS_SECONDS = 20
const LAST_PASSES = 4
const END_SECONDS = 61

export interface Life {
  resource: Resource
  name: string
  spec: unknown
  /** Whether what the spec names is there. */
  surrounded: boolean
}

/** Puts the resource among what it needs. Throws the API server's `Refusal` of it. */
export function born(stage: Stage, life: Life): ApiObject {
  const { kind, plural } = life.resource
  const finalizers = isFinalized(plural) ? [finalizerName(plural)] : []
  const metadata = { name: life.name, namespace: NAMESPACE, finalizers }
  const parent = stage.put({ apiVersion: API_VERSION, kind, metadata, spec: life.spec })
  if (!life.surrounded) return parent
  for (const object of surroundingsOf(parent)) tryPut(stage, object)
  return parent
}

function tryPut(stage: Stage, object: ApiObject): void {
  try {
    stage.put(object)
  } catch (error) {
    // Two fields may name one object, and some names no object can have.
    if (!(error instanceof ApiFailure)) throw error
  }
}

/** Passes until its Job is there, if it gets one, or nothing changes any more. */
export async function young(stage: Stage, resource: Resource, parent: ApiObject): Promise<void> {
  for (let pass = 0; pass < PASSES; pass += 1) {
    if ((await stage.pass(resource, parent)) !== 'changed') return
    await stage.later(PASS_SECONDS)
  }
}

/** A new resource on an empty stage, among all that it needs, until its Job is there. */
export async function begun(stage: Stage, resource: Resource, spec: unknown): Promise<ApiObject> {
  stage.clear()
  const parent = born(stage, { resource, name: 'a', spec, surrounded: true })
  await young(stage, resource, parent)
  return parent
}

/** Lives that begin alike: the beginning is lived once, and then put back as if it had just been. */
export class Youth {
  readonly #stage: Stage
  readonly #known = new Map<unknown, { parent: ApiObject; objects: Remembered }>()

  constructor(stage: Stage) {
    this.#stage = stage
  }

  /** As `begun`. */
  async of(resource: Resource, spec: unknown): Promise<ApiObject> {
    const known = this.#known.get(spec)
    if (known !== undefined) {
      this.#stage.recall(known.objects)
      return known.parent
    }
    const parent = await begun(this.#stage, resource, spec)
    this.#known.set(spec, { parent, objects: this.#stage.remember() })
    return parent
  }
}

/** Its Jobs end. */
export async function grown(stage: Stage, resource: Resource, parent: ApiObject): Promise<void> {
  endJobs(stage)
  const { namespace = '', name } = parent.metadata
  if (parent.kind === 'VecCluster')
    for (const object of releaseOf(namespace, name)) tryPut(stage, object)
  for (let pass = 0; pass < 2; pass += 1) {
    if ((await stage.pass(resource, parent)) !== 'changed') return
    await stage.later(END_SECONDS)
  }
}

/** It is deleted; what keeps a bucket's objects needs no bucket. True when it is gone. */
export async function old(stage: Stage, resource: Resource, parent: ApiObject): Promise<boolean> {
  const annotate = { [ANNOTATIONS.retainObjects]: 'true' }
  stage.change(parent, (live) => ({
    ...live,
    metadata: { ...live.metadata, annotations: { ...live.metadata.annotations, ...annotate } },
  }))
  const { namespace = '', name } = parent.metadata
  const kind = stage.resources.kinds.of(parent.apiVersion, parent.kind)
  stage.resources.delete(kind, { namespace, name })
  for (let pass = 0; pass < LAST_PASSES; pass += 1) {
    const passed = await stage.pass(resource, parent)
    if (passed !== 'changed') return passed === 'gone'
    endJobs(stage)
    buryJobs(stage)
    await stage.later(END_SECONDS)
  }
  return false
}

function endJobs(stage: Stage): void {
  const kind = stage.resources.kinds.of('batch/v1', 'Job')
  const at = stage.clock.now().toISOString()
  for (const job of stage.resources.store.list(kind)) {
    if (job.status !== undefined) continue
    const conditions = [{ type: 'Complete', status: 'True', lastTransitionTime: at }]
    stage.change(job, (old) => ({ ...old, status: { conditions } }), 'status')
  }
}

/** Removes Jobs that are being deleted: this world has no controller that waits for their pods. */
function buryJobs(stage: Stage): void {
  const kind = stage.resources.kinds.of('batch/v1', 'Job')
  for (const job of stage.resources.store.list(kind)) {
    if (job.metadata.deletionTimestamp !== undefined) stage.resources.store.remove(kind, job)
  }
}
