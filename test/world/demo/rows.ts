/** One line about an object: its phase and what it waits for, kind by kind. */
import { parseProgress } from '../../../crds/contract/job.ts'
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import type { Condition } from '../../../crds/schema.ts'

export interface Row {
  kind: string
  name: string
  phase: string
  message: string
  createdAt: number
}

interface DemoObject extends AnyObject {
  spec?: { replicas?: number; resources?: { requests?: { storage?: string } } }
  status?: {
    phase?: string
    active?: number
    readyReplicas?: number
    updatedReplicas?: number
    replicas?: number
    conditions?: Partial<Condition>[]
  }
}

export function rowOf(object: AnyObject): Row {
  const { kind, metadata } = object
  const [phase, message] =
    metadata.deletionTimestamp === undefined ? stateOf(object) : outcome(object)
  return {
    ...{ kind, message },
    phase: phase === '' ? '-' : phase,
    name: `${metadata.namespace ?? ''}/${metadata.name}`,
    createdAt: Date.parse(metadata.creationTimestamp ?? ''),
  }
}

function stateOf(object: DemoObject): [phase: string, message: string] {
  const { spec, status = {} } = object
  switch (object.kind) {
    case 'Job':
      return jobState(object)
    case 'StatefulSet': {
      const desired = spec?.replicas ?? 1
      const { readyReplicas = 0, updatedReplicas = 0 } = status
      const message = `${updatedReplicas}/${desired} of the newest revision`
      return [`${readyReplicas}/${desired} ready`, message]
    }
    case 'Pod':
      return [status.phase ?? '', conditionOf(object, 'Ready')?.status === 'True' ? 'ready' : '']
    case 'PersistentVolumeClaim':
      return [status.phase ?? '', spec?.resources?.requests?.storage ?? '']
    default:
      return [status.phase ?? '', messageOf(object)]
  }
}

/** A deleted object keeps its phase until it is gone, and its status no longer changes. */
function outcome(object: DemoObject): [phase: string, message: string] {
  const [phase] = stateOf(object)
  const progress = progressOf(object)
  return [phase, progress === undefined ? 'being deleted' : `being deleted; ${progress}`]
}

function jobState(job: DemoObject): [phase: string, message: string] {
  const ended = ['Complete', 'Failed'].find((type) => conditionOf(job, type)?.status === 'True')
  if (ended !== undefined)
    return [ended, ended === 'Failed' ? (conditionOf(job, ended)?.message ?? '') : '']
  // Its pods have ended, and the Job controller is about to set the final condition.
  const outcome = ['SuccessCriteriaMet', 'FailureTarget'].some((type) => conditionOf(job, type))
  if (outcome) return ['Ending', '']
  return (job.status?.active ?? 0) > 0 ? ['Running', ''] : ['Pending', '']
}

/** Why a resource is not as its spec wants it, how ready it is, and how far a backup is. */
function messageOf(object: DemoObject): string {
  const applied = conditionOf(object, 'Applied')
  const ready = conditionOf(object, 'Ready') ?? conditionOf(object, 'Complete')
  const conditions = applied?.status === 'False' ? [applied, ready] : [ready]
  return conditions
    .map((condition) => condition?.message ?? '')
    .filter((message) => message !== '')
    .join('; ')
}

/** The last report of a Job: verb, number and state. */
function progressOf({ kind, metadata }: AnyObject): string | undefined {
  const text = metadata.annotations?.[ANNOTATIONS.progress]
  const progress = parseProgress(text, metadata.uid ?? '')
  const what = kind === 'VecCluster' ? 'helm' : kind.replace(/^Vec/, '').toLowerCase()
  return progress && `${what} ${progress.verb} ${progress.run} ${progress.state}`
}

function conditionOf({ status }: DemoObject, type: string): Partial<Condition> | undefined {
  return status?.conditions?.find((condition) => condition.type === type)
}
