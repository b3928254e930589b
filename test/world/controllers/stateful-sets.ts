/**
 * The StatefulSet controller: pods by ordinal with their volume claims, rolled one at a time from the
 * highest down to the partition, and the status Kubernetes shows. Claims are left behind.
 */
import { createHash } from 'node:crypto'
import { equal } from '../api/json.ts'
import type { Resources } from '../api/resources.ts'
import { matches } from '../api/selectors.ts'
import { controllerOf, controllerReference, isDeleting, type ApiObject } from '../client.ts'
import { hasEnded, isReady, podsOf, type Pod, type Template } from './objects.ts'
import type { Controller } from './queue.ts'
import { boundStatus } from './volumes.ts'

interface SetSpec {
  replicas: number
  selector: { matchLabels: Record<string, string> }
  serviceName?: string
  podManagementPolicy: string
  updateStrategy: { type: string; rollingUpdate?: { partition?: number } }
  template: Template
  volumeClaimTemplates?: { metadata: { name: string }; spec: object }[]
}

type StatefulSet = ApiObject & { spec: SetSpec; status: Record<string, unknown> }

const REVISION = 'controller-revision-hash'

/** The templates of a StatefulSet and their names. Kubernetes has a ControllerRevision of each. */
interface Revisions {
  update: { name: string; template: Template }
  current: { name: string; template: Template }
}

/** Keys are `namespace/name` of a StatefulSet. */
export function statefulSetController(resources: Resources): Controller {
  /** By revision. */
  const templates = new Map<string, Template>()
  const revisionsOf = (set: StatefulSet): Revisions => {
    const update = { name: revisionOf(set), template: set.spec.template }
    templates.set(update.name, update.template)
    const { currentRevision } = set.status
    const name = typeof currentRevision === 'string' ? currentRevision : update.name
    const template = templates.get(name)
    return { update, current: template === undefined ? update : { name, template } }
  }
  return {
    keys(object) {
      const { namespace = '', name } = object.metadata
      if (object.kind === 'StatefulSet') return [`${namespace}/${name}`]
      const owner = object.kind === 'Pod' ? controllerOf(object) : undefined
      return owner?.kind === 'StatefulSet' ? [`${namespace}/${owner.name}`] : []
    },
    sync(key) {
      const [namespace = '', name = ''] = key.split('/')
      const found = resources.find(kindOf(resources), namespace, name)
      if (found === undefined) return
      const set = found as StatefulSet
      const revisions = revisionsOf(set)
      if (!isDeleting(set)) {
        adopt(resources, set)
        arrange(resources, set, revisions)
      }
      writeStatus(resources, set, revisions.update.name)
    },
  }
}

/** Pods without a controller that the selector matches and that have a name of this set. */
function adopt(resources: Resources, set: StatefulSet): void {
  const { namespace = '', name } = set.metadata
  const kind = resources.kinds.of('v1', 'Pod')
  for (const pod of resources.store.list(kind, namespace) as Pod[]) {
    const isOfThisSet = new RegExp(`^${name}-[0-9]+$`).test(pod.metadata.name)
    if (!isOfThisSet || isDeleting(pod) || controllerOf(pod) !== undefined) continue
    if (!matches(pod.metadata.labels, set.spec.selector.matchLabels)) continue
    resources.update(kind, { namespace, name: pod.metadata.name }, (old) => ({
      ...old,
      metadata: {
        ...old.metadata,
        ownerReferences: [...(old.metadata.ownerReferences ?? []), controllerReference(set)],
      },
    }))
  }
}

/** One step towards the desired pods; each step changes a pod and so leads to the next. */
function arrange(resources: Resources, set: StatefulSet, revisions: Revisions): void {
  const { replicas, podManagementPolicy } = set.spec
  const parallel = podManagementPolicy === 'Parallel'
  const pods = new Map(podsOf(resources, set).map((pod) => [ordinalOf(pod), pod]))

  for (let ordinal = 0; ordinal < replicas; ordinal++) {
    const pod = pods.get(ordinal)
    if (pod === undefined) makePod(resources, set, ordinal, revisions)
    else if (hasEnded(pod)) deletePod(resources, pod)
    if (!parallel && !(pod !== undefined && isHealthy(pod))) return
  }
  const surplus = [...pods].filter(([ordinal]) => ordinal >= replicas).toSorted(highestFirst)
  for (const [, pod] of surplus) {
    deletePod(resources, pod)
    if (!parallel) return
  }
  roll(resources, set, pods, revisions.update.name)
}

/** Deletes the highest pod of another revision, once every pod above it is healthy. */
function roll(resources: Resources, set: StatefulSet, pods: Map<number, Pod>, revision: string) {
  const { replicas, updateStrategy } = set.spec
  if (updateStrategy.type !== 'RollingUpdate') return
  const partition = partitionOf(set)
  for (let ordinal = replicas - 1; ordinal >= partition; ordinal--) {
    const pod = pods.get(ordinal)
    if (pod === undefined) return
    if (pod.metadata.labels?.[REVISION] !== revision) {
      deletePod(resources, pod)
      return
    }
    if (!isHealthy(pod)) return
  }
}

function partitionOf({ spec: { updateStrategy } }: StatefulSet): number {
  return updateStrategy.rollingUpdate?.partition ?? 0
}

/** Below the partition a pod is created from the template that all pods had last. */
function makePod(
  resources: Resources,
  set: StatefulSet,
  ordinal: number,
  { update, current }: Revisions,
): void {
  const { namespace = '', name } = set.metadata
  const { volumeClaimTemplates = [], serviceName, updateStrategy } = set.spec
  const isBelow = updateStrategy.type === 'RollingUpdate' && ordinal < partitionOf(set)
  const { name: revision, template } = isBelow ? current : update
  const claims = volumeClaimTemplates.map(({ metadata, spec }) => ({
    volume: metadata.name,
    claim: `${metadata.name}-${name}-${ordinal}`,
    spec,
  }))
  for (const { claim, spec } of claims) makeClaim(resources, namespace, claim, spec)
  const podName = `${name}-${ordinal}`
  resources.create(resources.kinds.of('v1', 'Pod'), namespace, {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name: podName,
      namespace,
      labels: {
        ...template.metadata?.labels,
        [REVISION]: revision,
        'statefulset.kubernetes.io/pod-name': podName,
        'apps.kubernetes.io/pod-index': String(ordinal),
      },
      ...(template.metadata?.annotations && { annotations: template.metadata.annotations }),
      ownerReferences: [controllerReference(set)],
    },
    spec: {
      ...template.spec,
      hostname: podName,
      ...(serviceName !== undefined && { subdomain: serviceName }),
      volumes: [
        ...claims.map(({ volume, claim }) => ({
          name: volume,
          persistentVolumeClaim: { claimName: claim },
        })),
        ...(template.spec.volumes ?? []),
      ],
    },
  })
}

function makeClaim(resources: Resources, namespace: string, name: string, spec: object): void {
  const kind = resources.kinds.of('v1', 'PersistentVolumeClaim')
  if (resources.find(kind, namespace, name) !== undefined) return
  const metadata = { name, namespace }
  resources.create(kind, namespace, {
    ...{ apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata },
    spec,
  })
  const bound = (old: ApiObject) => ({ ...old, status: boundStatus(old) })
  resources.update(kind, { namespace, name }, bound, 'status')
}

function writeStatus(resources: Resources, set: StatefulSet, revision: string): void {
  const { namespace = '', name, generation } = set.metadata
  const pods = podsOf(resources, set)
  const at = (label: unknown) =>
    pods.filter((pod) => pod.metadata.labels?.[REVISION] === label && !isDeleting(pod)).length
  const ready = pods.filter(isReady).length
  const before = set.status['currentRevision'] ?? revision
  const updated = at(revision)
  const { replicas } = set.spec
  const done = updated === replicas && ready === replicas && pods.length === replicas
  const current = done ? revision : before
  const status = {
    observedGeneration: generation,
    replicas: pods.length,
    readyReplicas: ready,
    availableReplicas: ready,
    currentReplicas: at(current),
    updatedReplicas: updated,
    currentRevision: current,
    updateRevision: revision,
    collisionCount: 0,
  }
  // Counts of zero are left out.
  const counted = Object.entries(status).filter(
    ([field, value]) =>
      value !== 0 || ['replicas', 'availableReplicas', 'collisionCount'].includes(field),
  )
  const next = Object.fromEntries(counted)
  if (equal(next, set.status)) return
  const write = (old: ApiObject) => ({ ...old, status: next })
  resources.update(kindOf(resources), { namespace, name }, write, 'status')
}

function revisionOf({ metadata, spec }: StatefulSet): string {
  const hash = createHash('sha256').update(canonical(spec.template)).digest('hex').slice(0, 10)
  return `${metadata.name}-${hash}`
}

/** The same text for the same template, in whatever order its fields were written. */
function canonical(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    typeof part === 'object' && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  )
}

function ordinalOf({ metadata }: Pod): number {
  return Number(metadata.name.slice(metadata.name.lastIndexOf('-') + 1))
}

function highestFirst([a]: [number, Pod], [b]: [number, Pod]): number {
  return b - a
}

function isHealthy(pod: Pod): boolean {
  return isReady(pod) && !isDeleting(pod)
}

function deletePod(resources: Resources, pod: Pod): void {
  const { namespace = '', name } = pod.metadata
  if (!isDeleting(pod)) resources.delete(resources.kinds.of('v1', 'Pod'), { namespace, name })
}

function kindOf(resources: Resources) {
  return resources.kinds.of('apps/v1', 'StatefulSet')
}
