/**
 * Every reason of every kind: the single source of `vec-operator explain` and of docs/reasons.md. A test
 * finds the reasons in the code of hooks and jobs and requires exactly those in this table.
 */
import { RESOURCES, type Resource } from '../crd.ts'
import { escapeMarkdown, markdownTable } from '../field-reference.ts'
import { ACCESS_KEY_REASONS } from './access-key.ts'
import { BACKUP_SCHEDULE_REASONS } from './backup-schedule.ts'
import { BACKUP_FAILURES, BACKUP_REASONS } from './backup.ts'
import { CLUSTER_REASONS } from './cluster.ts'
import { COLLECTION_REASONS } from './collection.ts'
import { MIGRATION_FAILURES, MIGRATION_REASONS } from './migration.ts'
import type { KnownFailure, Reason } from './reason.ts'
import { RESTORE_FAILURES, RESTORE_REASONS } from './restore.ts'

export const REASONS: Readonly<Record<Resource['kind'], readonly Reason[]>> = {
  VecCluster: CLUSTER_REASONS,
  VecCollection: COLLECTION_REASONS,
  VecAccessKey: ACCESS_KEY_REASONS,
  VecBackup: BACKUP_REASONS,
  VecBackupSchedule: BACKUP_SCHEDULE_REASONS,
  VecRestore: RESTORE_REASONS,
  VecMigration: MIGRATION_REASONS,
}

export const FAILURES: Readonly<Partial<Record<Resource['kind'], readonly KnownFailure[]>>> = {
  VecBackup: BACKUP_FAILURES,
  VecRestore: RESTORE_FAILURES,
  VecMigration: MIGRATION_FAILURES,
}

/** Text of docs/reasons.md. */
export function reasonsPage(): string {
  const sections = RESOURCES.map(({ kind }) => reasonsSection(kind, REASONS[kind]))
  return [INTRODUCTION, ...sections.flat()].join('\n\n') + '\n'
}

const INTRODUCTION = `# Reasons and messages

Generated from \`crds/reasons/\` by \`npm run generate\`; \`vec-operator explain <message>\` uses the same
table. "Where" is the condition with the reason. If it names an Event, an Event with the same reason is
written when the reason occurs or its message changes. \`<...>\` in a message is a variable part.`

function reasonsSection(kind: string, reasons: readonly Reason[]): string[] {
  if (reasons.length === 0) return []
  return [
    `## ${kind}`,
    markdownTable(
      ['Reason', 'Where', 'Messages', 'Cause', 'Fix'],
      reasons.map((reason) => [
        `\`${reason.reason}\``,
        reasonLocation(reason),
        reason.messages.map((message) => `\`${message.replaceAll('|', '\\|')}\``).join('<br>'),
        escapeMarkdown(reason.cause),
        escapeOutsideCode(reason.fix),
      ]),
    ),
  ]
}

/** Human-readable: the condition and its status, and the type of the Event. */
export function reasonLocation({ condition, event }: Reason): string {
  const locations = [
    ...(condition === undefined ? [] : [`${condition.type}=${condition.status}`]),
    ...(event === undefined ? [] : [`${event} Event`]),
  ]
  return locations.length === 0 ? 'status.error' : locations.join(', ')
}

function escapeOutsideCode(text: string): string {
  const parts = text.split('`')
  return parts.map((part, index) => (index % 2 === 0 ? escapeMarkdown(part) : part)).join('`')
}
