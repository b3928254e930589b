/** Answers of the VecBackup hooks to whole requests. */
import { VecBackup, type BackupStatus } from '../../../crds/backup.ts'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { backupRbac } from '../../../hooks/backup/job.ts'
import { backupHooks } from '../../../hooks/backup/index.ts'
import type { BackupPorts } from '../../../hooks/backup/observe.ts'
import { answerValidator } from '../../../hooks/answer-validation.ts'
import type { Desired, HookRequest } from '../../../hooks/protocol.ts'
import { context } from '../../builders.ts'
import { backup, report } from './objects.ts'
import { fakePorts } from './ports.ts'

export const rbac = backupRbac(backup())

export type HookInput = HookRequest<VecBackup>

/** Every answer is validated. */
export async function callHook(
  hook: 'sync' | 'finalize',
  request: HookInput,
  overrides: Partial<BackupPorts> = {},
  hookContext = context,
) {
  const { ports, writes } = fakePorts(overrides)
  const kindHooks = backupHooks(ports)
  const desired = (await kindHooks[hook]?.(request, hookContext)) as Desired<BackupStatus>
  answerValidator(kindHooks)(request, desired, hook)
  return { desired, written: writes }
}

export function withProgress(
  progress: Parameters<typeof report>[0],
  backupParts: Parameters<typeof backup>[0] = {},
) {
  const annotations = {
    ...backupParts.annotations,
    [ANNOTATIONS.progress]: JSON.stringify(report(progress)),
  }
  return backup({ ...backupParts, annotations })
}
