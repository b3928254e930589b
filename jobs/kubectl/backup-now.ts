/**
 * `backup now <schedule>`: creates a VecBackup from a schedule at once, as `kubectl create job --from=cronjob`
 * creates a Job. The schedule neither waits for it nor deletes it.
 */
import { stringify } from 'yaml'
import { scheduledBackupSpec, VecBackupSchedule } from '../../crds/backup-schedule.ts'
import { VecBackup } from '../../crds/backup.ts'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { ANNOTATIONS, API_VERSION, LABELS, trimTrailing } from '../../crds/contract/names.ts'
import {
  booleanFlag,
  CliError,
  CLUSTER_FLAGS,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import { formatOutput, outputFlags, outputFormat, resourceName } from './output.ts'

export const backupNow: CliCommand = {
  name: 'backup now',
  operands: '<schedule>',
  operandCount: { min: 1, max: 1 },
  summary: 'create a VecBackup from a VecBackupSchedule immediately',
  details: [
    'The backup carries the label vec-operator.dev/schedule and the annotation vec-operator.dev/instantiate: manual. Retention does not delete it: delete it when you no longer need it.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    name: {
      type: 'string',
      value: 'NAME',
      description: 'name of the VecBackup; default: <schedule>-<time>-manual',
    },
    'dry-run': { type: 'boolean', description: 'print the VecBackup without creating it' },
    ...outputFlags('name'),
  },
  run: createBackup,
}

/** Maximum length of a name that is also a label value. */
const MAX_NAME_LENGTH = 63

async function createBackup(call: Invocation): Promise<number> {
  const [schedule = ''] = call.operands
  const { kubernetes, namespace } = await call.connect()
  const schedules = { apiVersion: API_VERSION, plural: VecBackupSchedule.plural, namespace }
  const source = await kubernetes.get(schedules, schedule, VecBackupSchedule.schema)
  if (source === undefined) {
    throw new CliError(`VecBackupSchedule ${namespace}/${schedule} not found`)
  }
  const backup = newBackup(
    source,
    stringFlag(call, 'name') ?? manualBackupName(schedule, call.time.now()),
  )
  if (!booleanFlag(call, 'dry-run')) {
    const backups = { apiVersion: API_VERSION, plural: VecBackup.plural, namespace }
    try {
      await kubernetes.create(backups, backup)
    } catch (error) {
      if (!(error instanceof KubernetesError) || error.status !== 409) throw error
      throw new CliError(`VecBackup ${namespace}/${backup.metadata.name} already exists`)
    }
  }
  printBackup(call, backup)
  return EXIT_CODES.success
}

/**
 * A name that no schedule generates: generated names end in the digits of their slot. It sorts with the names
 * of its schedule; a long schedule name is truncated.
 */
export function manualBackupName(schedule: string, time: Date): string {
  const digits = time.toISOString().slice(0, 19).replaceAll(/[-:]/g, '')
  const suffix = `-${digits.replace('T', '-')}-manual`
  return trimTrailing(schedule.slice(0, MAX_NAME_LENGTH - suffix.length), '-.') + suffix
}

function newBackup(schedule: VecBackupSchedule, name: string) {
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
    spec: scheduledBackupSpec(schedule),
  }
}

function printBackup(call: Invocation, backup: ReturnType<typeof newBackup>): void {
  const { name, namespace } = backup.metadata
  const reference = resourceName(backup.kind, name)
  const text = () => {
    if (outputFormat(call) === 'name') return `${reference}\n`
    if (booleanFlag(call, 'dry-run')) return stringify(backup)
    return `${reference} created\nkubectl wait --for=condition=Complete qb/${name} -n ${namespace} --timeout=1h\n`
  }
  call.print(formatOutput(call, backup, text))
}
