/** Reports the conditions that mean danger, which are those of the metric and its alerts. */
import { Type } from '@sinclair/typebox'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { RESOURCES, type Resource } from '../../../crds/crd.ts'
import { criticalConditions } from '../../../crds/critical-conditions.ts'
import { AnyObject } from '../../../crds/kubernetes.ts'
import { apiResource } from '../../clients/kubernetes/api-resources.ts'
import { oneLine } from '../table.ts'
import { unreadable, type CheckContext, type CheckResult } from './check.ts'

const ABOUT = 'conditions'

const WithConditions = Type.Composite([
  AnyObject,
  Type.Object({
    status: Type.Optional(
      Type.Object({
        conditions: Type.Optional(
          Type.Array(
            Type.Object({
              type: Type.String(),
              status: Type.Union([
                Type.Literal('True'),
                Type.Literal('False'),
                Type.Literal('Unknown'),
              ]),
              reason: Type.String(),
              message: Type.String(),
            }),
          ),
        ),
      }),
    ),
  }),
])

export async function checkConditions(context: CheckContext): Promise<CheckResult[]> {
  const found: CheckResult[] = []
  for (const resource of RESOURCES) found.push(...(await dangersOf(resource, context)))
  return found.length > 0 ? found : [{ about: ABOUT, level: 'fine', says: 'none means danger' }]
}

async function dangersOf(
  { kind, plural }: Resource,
  context: CheckContext,
): Promise<CheckResult[]> {
  try {
    const objects = await context.kubernetes.list(
      apiResource(API_VERSION, plural)(context.namespace),
      WithConditions,
    )
    return objects.flatMap(({ metadata, status }) =>
      criticalConditions(status?.conditions ?? [])
        // A failed data job is finished: its own alert is for its first day.
        .filter(({ type }) => type !== 'Stalled' || !ONE_SHOT.has(kind))
        .map(({ type, status: value, message }) => ({
          about: ABOUT,
          level: 'warning' as const,
          says: `${kind} ${metadata.namespace ?? ''}/${metadata.name}: ${type} is ${value}: ${oneLine(message)}`,
        })),
    )
  } catch (error) {
    return unreadable(ABOUT, error)
  }
}

const ONE_SHOT = new Set<string>(['VecBackup', 'VecRestore', 'VecMigration'])
