/** GET /issues: what this engine has noticed; here, filters of slow queries that no index serves. */
import { visible } from '../access.ts'
import { ok, type EngineAnswer, type EngineRequest } from '../answers.ts'
import type { EngineCluster } from '../cluster.ts'

export function issueRoutes(
  { method, path, access }: EngineRequest,
  { collections }: EngineCluster,
): EngineAnswer | undefined {
  if (method !== 'GET' || path.join('/') !== 'issues') return undefined
  const issues = [...collections]
    .filter(([name]) => visible(access, name))
    .flatMap(([name, { slowFields = [], payloadSchema }]) =>
      slowFields
        .filter((field) => !(field in payloadSchema))
        .map((field) => ({
          id: `UNINDEXED_FIELD/${name}/${field}`,
          description: `Unindexed field '${field}' might be slowing queries down in collection '${name}'`,
          related_collection: name,
        })),
    )
  return ok({ issues })
}
