/**
 * The built-in Kubernetes objects: only the fields that are read; other fields are accepted. Also reads
 * the holder of a Lease, and what a StatefulSet says about its volumes and its update, and a pod about itself.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { Condition, Enum, NamespaceName, ObjectName, OwnerReference, Uid } from './schema.ts'
import { REVISION_LABEL } from './contract/names.ts'

const optionalStrings = Type.Optional(Type.Record(Type.String(), Type.String()))

/** Metadata of an observed object. */
const ObservedMetadata = Type.Object({
  name: Type.String(),
  namespace: Type.Optional(Type.String()),
  uid: Type.Optional(Type.String()),
  resourceVersion: Type.Optional(Type.String()),
  generation: Type.Optional(Type.Integer()),
  creationTimestamp: Type.Optional(Type.String()),
  deletionTimestamp: Type.Optional(Type.String()),
  labels: optionalStrings,
  annotations: optionalStrings,
  ownerReferences: Type.Optional(Type.Array(OwnerReference)),
})

/** Any object of the Kubernetes API. */
export const AnyObject = Type.Object({
  apiVersion: Type.String(),
  kind: Type.String(),
  metadata: ObservedMetadata,
})
export type AnyObject = Static<typeof AnyObject>

/** Whether the controller of this object has this uid. */
export function isControlledBy(
  { metadata: { ownerReferences = [] } }: Pick<AnyObject, 'metadata'>,
  uid: string,
): boolean {
  return ownerReferences.some((owner) => owner.controller === true && owner.uid === uid)
}

/** Whether an owner of this object has this uid. */
export function isOwnedBy(
  { metadata: { ownerReferences = [] } }: Pick<AnyObject, 'metadata'>,
  uid: string | undefined,
): boolean {
  return ownerReferences.some((owner) => owner.uid === uid)
}

const JobCondition = Type.Object({
  type: Type.String(),
  status: Type.String(),
  reason: Type.Optional(Type.String()),
  message: Type.Optional(Type.String()),
  lastTransitionTime: Type.Optional(Type.String()),
})

export const Job = Type.Object({
  apiVersion: Type.Literal('batch/v1'),
  kind: Type.Literal('Job'),
  metadata: ObservedMetadata,
  spec: Type.Optional(
    Type.Object({
      suspend: Type.Optional(Type.Boolean()),
      template: Type.Object({
        spec: Type.Object({
          containers: Type.Array(
            Type.Object({ name: Type.Optional(Type.String()), image: Type.String() }),
          ),
        }),
      }),
    }),
  ),
  status: Type.Optional(
    Type.Object({
      active: Type.Optional(Type.Integer()),
      /** Number of pods whose containers are running. */
      ready: Type.Optional(Type.Integer()),
      failed: Type.Optional(Type.Integer()),
      startTime: Type.Optional(Type.String()),
      conditions: Type.Optional(Type.Array(JobCondition)),
    }),
  ),
})
export type Job = Static<typeof Job>

const EnvVariable = Type.Object({
  name: Type.String(),
  valueFrom: Type.Optional(
    Type.Object({
      secretKeyRef: Type.Optional(
        Type.Object({ name: Type.Optional(Type.String()), key: Type.String() }),
      ),
    }),
  ),
})

const PodTemplate = Type.Object({
  metadata: Type.Optional(Type.Object({ annotations: optionalStrings })),
  spec: Type.Optional(
    Type.Object({
      containers: Type.Optional(
        Type.Array(Type.Object({ env: Type.Optional(Type.Array(EnvVariable)) })),
      ),
    }),
  ),
})

export const StatefulSet = Type.Object({
  apiVersion: Type.Literal('apps/v1'),
  kind: Type.Literal('StatefulSet'),
  metadata: ObservedMetadata,
  spec: Type.Object({
    replicas: Type.Optional(Type.Integer()),
    template: Type.Optional(PodTemplate),
    updateStrategy: Type.Optional(
      Type.Object({
        rollingUpdate: Type.Optional(Type.Object({ partition: Type.Optional(Type.Integer()) })),
      }),
    ),
    volumeClaimTemplates: Type.Optional(
      Type.Array(
        Type.Object({
          metadata: Type.Object({ name: Type.String() }),
          spec: Type.Object({
            storageClassName: Type.Optional(Type.String()),
            volumeAttributesClassName: Type.Optional(Type.String()),
            resources: Type.Optional(
              Type.Object({
                requests: Type.Optional(Type.Object({ storage: Type.Optional(Type.String()) })),
              }),
            ),
          }),
        }),
      ),
    ),
  }),
  status: Type.Optional(
    Type.Object({
      observedGeneration: Type.Optional(Type.Integer()),
      replicas: Type.Optional(Type.Integer()),
      readyReplicas: Type.Optional(Type.Integer()),
      updatedReplicas: Type.Optional(Type.Integer()),
      currentRevision: Type.Optional(Type.String()),
      updateRevision: Type.Optional(Type.String()),
    }),
  ),
})
export type StatefulSet = Static<typeof StatefulSet>

const ContainerState = Type.Object({
  waiting: Type.Optional(
    Type.Object({
      reason: Type.Optional(Type.String()),
      message: Type.Optional(Type.String()),
    }),
  ),
  terminated: Type.Optional(
    Type.Object({
      exitCode: Type.Integer(),
      reason: Type.Optional(Type.String()),
      message: Type.Optional(Type.String()),
    }),
  ),
})

const ContainerStatus = Type.Object({
  name: Type.String(),
  ready: Type.Optional(Type.Boolean()),
  restartCount: Type.Optional(Type.Integer()),
  state: Type.Optional(ContainerState),
  lastState: Type.Optional(ContainerState),
})
export type ContainerStatus = Static<typeof ContainerStatus>

/** The fields of a pod that say what it runs, where, and why it is not ready. */
export const Pod = Type.Object({
  ...AnyObject.properties,
  spec: Type.Optional(
    Type.Object({
      nodeName: Type.Optional(Type.String()),
      containers: Type.Optional(Type.Array(Type.Object({ image: Type.Optional(Type.String()) }))),
    }),
  ),
  status: Type.Optional(
    Type.Object({
      conditions: Type.Optional(
        Type.Array(
          Type.Object({
            type: Type.String(),
            status: Type.String(),
            reason: Type.Optional(Type.String()),
            message: Type.Optional(Type.String()),
          }),
        ),
      ),
      initContainerStatuses: Type.Optional(Type.Array(ContainerStatus)),
      containerStatuses: Type.Optional(Type.Array(ContainerStatus)),
    }),
  ),
})
export type Pod = Static<typeof Pod>

export const Secret = Type.Object({
  apiVersion: Type.Literal('v1'),
  kind: Type.Literal('Secret'),
  metadata: ObservedMetadata,
  type: Type.Optional(Type.String()),
  data: optionalStrings,
})
export type Secret = Static<typeof Secret>

/** One value of a Secret, decoded; undefined if the Secret or the value does not exist. */
export function secretValue(
  secret: Pick<Secret, 'data'> | undefined,
  key: string,
): string | undefined {
  const encoded = secret?.data?.[key]
  return encoded === undefined ? undefined : Buffer.from(encoded, 'base64').toString()
}

export const ConfigMap = Type.Object({
  apiVersion: Type.Literal('v1'),
  kind: Type.Literal('ConfigMap'),
  metadata: ObservedMetadata,
  data: optionalStrings,
})
export type ConfigMap = Static<typeof ConfigMap>

export const Lease = Type.Object({
  apiVersion: Type.Literal('coordination.k8s.io/v1'),
  kind: Type.Literal('Lease'),
  metadata: ObservedMetadata,
  spec: Type.Optional(
    Type.Object({
      holderIdentity: Type.Optional(Type.String()),
      acquireTime: Type.Optional(Type.String()),
      renewTime: Type.Optional(Type.String()),
    }),
  ),
})
export type Lease = Static<typeof Lease>

export const KubernetesEvent = Type.Object({
  metadata: Type.Object({ name: Type.String(), namespace: Type.String() }),
  involvedObject: Type.Object({
    apiVersion: Type.String(),
    kind: Type.String(),
    name: Type.String(),
    /** Absent for a cluster-scoped object; its Events are in the namespace default. */
    namespace: Type.Optional(Type.String()),
    uid: Type.String(),
  }),
  type: Type.Union([Type.Literal('Normal'), Type.Literal('Warning')]),
  reason: Type.String(),
  message: Type.String(),
  at: Type.String(),
})
export type KubernetesEvent = Static<typeof KubernetesEvent>

/** The condition that says how a Job ended; undefined while it is running. */
export function finishedCondition(job: Job): Static<typeof JobCondition> | undefined {
  return job.status?.conditions?.find(
    ({ type, status }) => status === 'True' && (type === 'Complete' || type === 'Failed'),
  )
}

export type ConditionStatus = Condition['status']

const LeaseHolder = Type.Object({
  kind: Type.String({ minLength: 1 }),
  namespace: NamespaceName(),
  name: ObjectName(),
  uid: Uid(),
})
export type LeaseHolder = Static<typeof LeaseHolder>

const HOLDER_PARTS = 4

/** The holder of a Lease; undefined without a holder and for one that this operator did not write. */
export function readLeaseHolder({ spec }: Lease): LeaseHolder | undefined {
  return parseHolderIdentity(spec?.holderIdentity)
}

/** Parses the holder identity that `identityOf` formats. */
export function parseHolderIdentity(identity: string | undefined): LeaseHolder | undefined {
  const parts = identity?.split('/')
  if (parts?.length !== HOLDER_PARTS) return undefined
  const [kind, namespace, name, uid] = parts
  const holder = { kind, namespace, name, uid }
  return Value.Check(LeaseHolder, holder) ? holder : undefined
}

export function formatHolderIdentity({ kind, namespace, name, uid }: LeaseHolder): string {
  return [kind, namespace, name, uid].join('/')
}

/** The sections of the spec that describe volumes. */
export const VolumeField = Enum(['persistence', 'snapshotPersistence'])
export type VolumeField = Static<typeof VolumeField>

export type ClaimTemplate = NonNullable<StatefulSet['spec']['volumeClaimTemplates']>[number]

/** The claim template of the volumes of a field of the spec, as the engine's chart names it. */
export function claimTemplate(
  { spec }: Pick<StatefulSet, 'spec'>,
  field: VolumeField,
): ClaimTemplate | undefined {
  return spec.volumeClaimTemplates?.find(({ metadata: { name } }) =>
    field === 'persistence' ? name.endsWith('storage') : name.includes('snapshots'),
  )
}

export function templateSize(template: ClaimTemplate | undefined): string | undefined {
  return template?.spec.resources?.requests?.storage
}

/** Pods with a lower ordinal keep their template during an update. */
export function partitionOf({ spec }: Pick<StatefulSet, 'spec'>): number {
  return spec.updateStrategy?.rollingUpdate?.partition ?? 0
}

/** The pods have had two templates, and not all of them are known to have the newest one yet. */
export function hasTwoRevisions({ status }: Pick<StatefulSet, 'status'>): boolean {
  return status?.currentRevision !== status?.updateRevision
}

/**
 * Fewer pods have the newest template than exist. If an update was taken back before its end, both revisions
 * are the former one and only this count shows the pods that are left. A pod that terminates is not in it
 * either: the labels of the pods distinguish them.
 */
export function mayHaveOutdatedPods({ status }: Pick<StatefulSet, 'status'>): boolean {
  return (status?.updatedReplicas ?? 0) < (status?.replicas ?? 0)
}

/** Some pods may not have the newest template. */
export function mayBeUpdating(set: Pick<StatefulSet, 'status'>): boolean {
  return hasTwoRevisions(set) || mayHaveOutdatedPods(set)
}

/** The pod has another template than the newest one. */
export function isOutdated(
  { metadata }: Pick<Pod, 'metadata'>,
  { status }: Pick<StatefulSet, 'status'>,
): boolean {
  const revision = metadata.labels?.[REVISION_LABEL]
  return revision !== undefined && revision !== status?.updateRevision
}

export function isReady({ status }: Pick<Pod, 'status'>): boolean {
  return (status?.conditions ?? []).some(
    (condition) => condition.type === 'Ready' && condition.status === 'True',
  )
}

/** The scheduler finds no node for the pod. */
export function isUnschedulable({ status }: Pick<Pod, 'status'>): boolean {
  return (status?.conditions ?? []).some(
    ({ type, status, reason }) =>
      type === 'PodScheduled' && status === 'False' && reason === 'Unschedulable',
  )
}

/** The pod exists, is ready and is not about to stop. */
export function isStable(pod: Pod | undefined): boolean {
  return pod !== undefined && pod.metadata.deletionTimestamp === undefined && isReady(pod)
}
