/**
 * `backup now <schedule>`: a VecBackup of what a schedule backs up, made at once, as
 * `kubectl create job --from=cronjob` makes a Job. The schedule neither waits for it nor deletes it.
 */
import { stringify } from 'yaml'
import { VecBackup } from '../../crds/backup.ts'
import { VecBackupSchedule, backupSpecOf } from '../../crds/backup-schedule.ts'
import { KubernetesError } from '../../crds/errors.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/names.ts'
import { trimmedEnd } from '../../crds/text.ts'
import {
  CLUSTER_FLAGS,
  Complaint,
  ENDS,
  JSON_FLAG,
  isOn,
  textOf,
  type PeopleCall,
  type PeopleCommand,
} from './command.ts'

export const backupNow: PeopleCommand = {
  name: 'backup now',
  operands: '<schedule>',
  takes: { least: 1, most: 1 },
  summary: 'make a VecBackup of what a VecBackupSchedule backs up, at once',
  details: [
    'The backup carries the label vec-operator.dev/schedule and the annotation vec-operator.dev/instantiate: manual. Retention leaves it alone: it stays until somebody deletes it.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    name: {
      type: 'string',
      value: 'NAME',
      says: 'of the VecBackup; default: <schedule>-<time>-manual',
    },
    'dry-run': { type: 'boolean', says: 'print what would be made, and make nothing' },
    ...JSON_FLAG,
  },
  run: now,
}

/** Names of objects that end up in a label have room for no more. */
const MAX_NAME = 63

async function now(call: PeopleCall): Promise<number> {
  const [schedule = ''] = call.operands
  const { kubernetes, namespace } = await call.reach()
  const schedules = { apiVersion: API_VERSION, plural: VecBackupSchedule.plural, namespace }
  const found = await kubernetes.get(schedules, schedule, VecBackupSchedule.schema)
  if (found === undefined) {
    throw new Complaint(`VecBackupSchedule ${namespace}/${schedule} not found`)
  }
  const backup = backupOf(found, textOf(call, 'name') ?? manualName(schedule, call.time.now()))
  if (!isOn(call, 'dry-run')) {
    const backups = { apiVersion: API_VERSION, plural: VecBackup.plural, namespace }
    try {
      await kubernetes.create(backups, backup)
    } catch (error) {
      if (!(error instanceof KubernetesError) || error.status !== 409) throw error
      throw new Complaint(`VecBackup ${namespace}/${backup.metadata.name} is there already`)
    }
  }
  tell(call, backup)
  return ENDS.fine
}

/**
 * A name that no schedule gives: those end in the digits of their slot. It sorts with the names of its
 * schedule, whose name is cut where it is long.
 */
export function manualName(schedule: string, at: Date): string {
  const digits = at.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')
  const ending = `-${digits.replace('T', '-')}-manual`
  return trimmedEnd(schedule.slice(0, MAX_NAME - ending.length), '-.') + ending
}

function backupOf(schedule: VecBackupSchedule, name: string) {
  const { namespace, annotations } = schedule.metadata
  const retain = annotations?.[ANNOTATIONS.retainObjects]
  return {
    apiVersion: API_VERSION,
    kind: VecBackup.kind,
    metadata: {
      name,
      namespace,
      labels: { [LABELS.schedule]: schedule.metadata.name },
      annotations: {
        [ANNOTATIONS.instantiate]: 'manual',
        ...(retain !== undefined && { [ANNOTATIONS.retainObjects]: retain }),
      },
    },
    spec: backupSpecOf(schedule),
  }
}

function tell(call: PeopleCall, backup: ReturnType<typeof backupOf>): void {
  const { name, namespace } = backup.metadata
  if (isOn(call, 'json')) call.print(`${JSON.stringify(backup, null, 2)}\n`)
  else if (isOn(call, 'dry-run')) call.print(stringify(backup))
  else {
    call.print(`vecbackup.vec-operator.dev/${name} created\n`)
    call.print(`kubectl wait --for=condition=Complete qb/${name} -n ${namespace} --timeout=1h\n`)
  }
}
