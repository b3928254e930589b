/** What helm does with the objects of a chart: whose they are, making, changing and deleting them. */
import { isDeepStrictEqual } from 'node:util'
import { setTimeout } from 'node:timers/promises'
import { ApiError, referenceOf, type ApiClient, type ApiObject } from '../../world/client.ts'
import type { Reference } from '../../world/world.ts'
import type { Rendered } from '../chart-objects.ts'

/** helm ends with these words. */
export class HelmFailure extends Error {}

interface Release {
  release: string
  namespace: string
}

const POLL_MS = 50
const CONFLICT = 409

/** The objects as helm writes them: in the namespace, with the marks of their owner. */
export function owned(objects: Rendered[], { release, namespace }: Release): ApiObject[] {
  return objects.map((object) => ({
    ...object,
    metadata: {
      ...object.metadata,
      namespace,
      labels: { ...object.metadata.labels, [MANAGED_BY]: 'Helm' },
      annotations: { ...object.metadata.annotations, ...marks({ release, namespace }) },
    },
  }))
}

const MANAGED_BY = 'app.kubernetes.io/managed-by'

function marks({ release, namespace }: Release): Record<string, string> {
  return { 'meta.helm.sh/release-name': release, 'meta.helm.sh/release-namespace': namespace }
}

/** Fails where the API does not know a kind, as when the monitoring CRDs are missing. */
export async function checkKinds(api: ApiClient, objects: ApiObject[]): Promise<void> {
  for (const object of objects) {
    try {
      await api.path(referenceOf(object))
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error
      throw new HelmFailure(
        `resource mapping not found for name: "${object.metadata.name}" namespace: "" from "": no matches for kind "${object.kind}" in version "${object.apiVersion}"\nensure CRDs are installed first`,
      )
    }
  }
}

/** Fails where an object exists that is not of this release. */
export async function checkOwners(api: ApiClient, objects: ApiObject[], release: Release) {
  for (const object of objects) {
    const found = await api.get(referenceOf(object))
    const problems = found === undefined ? [] : foreignMarks(found, release)
    if (problems.length > 0) {
      throw new HelmFailure(
        `${object.kind} "${object.metadata.name}" in namespace "${release.namespace}" exists and cannot be imported into the current release: invalid ownership metadata; ${problems.join('; ')}`,
      )
    }
  }
}

function foreignMarks({ metadata }: ApiObject, release: Release): string[] {
  const problem = (what: string, key: string, desired: string, found: string | undefined) => {
    if (found === desired) return []
    return found === undefined
      ? [`${what} validation error: missing key "${key}": must be set to "${desired}"`]
      : [
          `${what} validation error: key "${key}" must equal "${desired}": current value is "${found}"`,
        ]
  }
  return [
    ...problem('label', MANAGED_BY, 'Helm', metadata.labels?.[MANAGED_BY]),
    ...Object.entries(marks(release)).flatMap(([key, desired]) =>
      problem('annotation', key, desired, metadata.annotations?.[key]),
    ),
  ]
}

/** Makes the object, or changes the one that is there. */
export async function applyObject(api: ApiClient, desired: ApiObject): Promise<void> {
  for (;;) {
    const found = await api.get(referenceOf(desired))
    try {
      if (found === undefined) await api.create(desired)
      else await changeObject(api, found, desired)
      return
    } catch (error) {
      // Someone else wrote in between: look again.
      if (!(error instanceof ApiError) || error.status !== CONFLICT) throw error
    }
  }
}

async function changeObject(api: ApiClient, found: ApiObject, desired: ApiObject): Promise<void> {
  const { kind } = desired
  const { name } = desired.metadata
  if (kind === 'StatefulSet' && FIXED.some((field) => differs(found, desired, field))) {
    throw new HelmFailure(
      `cannot patch "${name}" with kind StatefulSet: StatefulSet.apps "${name}" is invalid: spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden`,
    )
  }
  const merged = {
    ...found,
    ...desired,
    ...(isMap(found.spec) && isMap(desired.spec) && { spec: { ...found.spec, ...desired.spec } }),
    metadata: {
      ...found.metadata,
      labels: desired.metadata.labels,
      annotations: { ...found.metadata.annotations, ...desired.metadata.annotations },
    },
  }
  const change = patchTo(found, merged)
  if (change !== undefined) await api.patch(referenceOf(found), change)
}

/** The merge patch from one object to another; undefined if they are equal. Helm patches, it never replaces. */
function patchTo(from: Record<string, unknown>, to: Record<string, unknown>): object | undefined {
  const changes = [...new Set([...Object.keys(from), ...Object.keys(to)])].flatMap((field) => {
    const [before, after] = [from[field], to[field]]
    if (isDeepStrictEqual(before, after)) return []
    const inner = isMap(before) && isMap(after) ? patchTo(before, after) : (after ?? null)
    return [[field, inner] as const]
  })
  return changes.length === 0 ? undefined : Object.fromEntries(changes)
}

/** What the API server does not let anyone change. */
const FIXED = ['volumeClaimTemplates', 'serviceName', 'podManagementPolicy', 'selector'] as const

function differs(found: ApiObject, desired: ApiObject, field: (typeof FIXED)[number]): boolean {
  const [before, after] = [found.spec, desired.spec] as Record<string, unknown>[]
  return !isPartOf(after?.[field], before?.[field])
}

/** The API server adds defaults to what was sent, so only what was sent is compared. */
function isPartOf(part: unknown, whole: unknown): boolean {
  if (Array.isArray(part) && Array.isArray(whole)) {
    return part.length === whole.length && part.every((item, i) => isPartOf(item, whole[i]))
  }
  if (isMap(part) && isMap(whole)) {
    return Object.entries(part).every(([key, value]) => isPartOf(value, whole[key]))
  }
  return part === whole
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Deletes what is there; with `wait` until it is gone. */
export async function deleteObjects(api: ApiClient, references: Reference[], wait: boolean) {
  for (const reference of references) {
    try {
      await api.delete(reference, { propagation: 'Background' })
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 404) throw error
    }
  }
  while (wait && (await anyLeft(api, references))) await setTimeout(POLL_MS)
}

async function anyLeft(api: ApiClient, references: Reference[]): Promise<boolean> {
  const found = await Promise.all(references.map((reference) => api.get(reference)))
  return found.some((object) => object !== undefined)
}
