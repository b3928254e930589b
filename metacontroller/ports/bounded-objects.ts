/**
 * What stays in memory of the objects of a list. Users create objects of up to 3 MiB, as many as they like, and
 * choose the labels that a list selects by; all tenants share the heap of the service. Only fields that are read
 * are copied, and texts only up to a length.
 */
import type { VecBackup } from '../../crds/backup.ts'
import {
  ANNOTATIONS,
  FORMER_ANNOTATIONS,
  LABELS,
  REVISION_LABEL,
} from '../../crds/contract/names.ts'
import type { AnyObject, Job, Pod } from '../../crds/kubernetes.ts'

/** Longest text of an annotation or an image; the longest that is read names the allowed namespaces. */
const MAX_TEXT = 16 * 1024

const READ_LABELS: readonly string[] = [...Object.values(LABELS), REVISION_LABEL]
const JOB_ANNOTATIONS = [ANNOTATIONS.plan, ANNOTATIONS.image, ANNOTATIONS.signature]
const BACKUP_ANNOTATIONS = [
  ...[ANNOTATIONS.retainObjects, ANNOTATIONS.pruned, ANNOTATIONS.allowedNamespaces],
  ...Object.values(FORMER_ANNOTATIONS),
]

/** With one container: only its image is read. Users cannot write the status of a Job. */
export function boundedJob({ apiVersion, kind, metadata, spec, status }: Job): Job {
  const containers = boundedContainers(spec?.template.spec.containers)
  return {
    ...{ apiVersion, kind, metadata: boundedMetadata(metadata, JOB_ANNOTATIONS) },
    ...(spec !== undefined && {
      spec: { ...pick(spec, ['suspend']), template: { spec: { containers } } },
    }),
    ...(status !== undefined && {
      status: pick(status, ['active', 'ready', 'failed', 'startTime', 'conditions']),
    }),
  }
}

/** With one container: only its image is read. Users cannot write the status of a pod. */
export function boundedPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  return {
    ...{ apiVersion, kind, metadata: boundedMetadata(metadata, []) },
    ...(spec !== undefined && {
      spec: {
        ...pick(spec, ['nodeName']),
        ...(spec.containers !== undefined && { containers: boundedContainers(spec.containers) }),
      },
    }),
    ...(status !== undefined && {
      status: pick(status, ['conditions', 'initContainerStatuses', 'containerStatuses']),
    }),
  }
}

function boundedContainers(containers: { image?: string }[] = []): { image: string }[] {
  const [{ image } = {}] = containers
  return image === undefined || image.length > MAX_TEXT ? [] : [{ image }]
}

/** Without the collections that its spec names, of which there may be a thousand. */
export function boundedBackup({ apiVersion, kind, metadata, spec, status }: VecBackup): VecBackup {
  const { collections: _, ...content } = spec
  return {
    ...{ apiVersion, kind, metadata: boundedMetadata(metadata, BACKUP_ANNOTATIONS), spec: content },
    ...(status !== undefined && { status }),
  }
}

const METADATA_FIELDS = [
  ...(['name', 'namespace', 'uid', 'resourceVersion', 'generation'] as const),
  ...(['creationTimestamp', 'deletionTimestamp'] as const),
] as const

/** With the controller of the owners: the API server accepts only one. */
function boundedMetadata<Metadata extends AnyObject['metadata']>(
  metadata: Metadata,
  annotations: readonly string[],
) {
  const { labels, annotations: values, ownerReferences } = metadata
  const controllers = ownerReferences?.filter(({ controller }) => controller === true)
  const fields: Pick<Metadata, (typeof METADATA_FIELDS)[number]> = pick(metadata, METADATA_FIELDS)
  return Object.assign(fields, {
    ...(labels !== undefined && { labels: pickTexts(labels, READ_LABELS) }),
    ...(values !== undefined && { annotations: pickTexts(values, annotations) }),
    ...(controllers !== undefined && { ownerReferences: controllers.slice(0, 1) }),
  })
}

function pickTexts(texts: Record<string, string>, names: readonly string[]) {
  return Object.fromEntries(
    Object.entries(pick(texts, names)).filter(([, text]) => text.length <= MAX_TEXT),
  )
}

/** Copies the fields that are present. */
function pick<T extends object, Key extends keyof T>(
  object: T,
  keys: readonly Key[],
): Pick<T, Key> {
  const present = keys.filter((key) => object[key] !== undefined)
  return Object.fromEntries(present.map((key) => [key, object[key]])) as Pick<T, Key>
}
