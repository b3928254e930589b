/** What a Job does, as its resource sees it: it reports, and it ends. */
import { ANNOTATIONS, LABELS } from '../../../crds/contract/names.ts'
import type { ApiObject } from '../../world/client.ts'
import type { Stage } from '../stage.ts'

/** Writes a report of this Job into the annotation of its resource. */
export function report(stage: Stage, parent: ApiObject, job: ApiObject, fields: object): void {
  const at = stage.clock.now().toISOString()
  const { uid, name, labels, annotations } = job.metadata
  const progress = {
    uid: parent.metadata.uid,
    verb: labels?.[LABELS.verb],
    run: Number(name.split('-').at(-1)),
    job: uid,
    runner: 'pod',
    plan: annotations?.[ANNOTATIONS.plan],
    at,
    startedAt: at,
    ...fields,
  }
  annotate(stage, parent, { [ANNOTATIONS.progress]: JSON.stringify(progress) })
}

export function annotate(
  stage: Stage,
  object: ApiObject,
  annotations: Record<string, string>,
): void {
  stage.change(object, (live) => ({
    ...live,
    metadata: { ...live.metadata, annotations: { ...live.metadata.annotations, ...annotations } },
  }))
}

export function endJob(stage: Stage, job: ApiObject, type: 'Complete' | 'Failed'): void {
  const condition = { type, status: 'True', lastTransitionTime: stage.clock.now().toISOString() }
  const status = { conditions: [condition], ...(type === 'Failed' && { failed: 3 }) }
  stage.change(job, (old) => ({ ...old, status }), 'status')
}
