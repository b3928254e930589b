/**
 * VecCluster: one Helm release of the engine's chart, named `vec-<name>`. Also the rules that the API server checks between
 * fields, and which fields cannot be changed.
 */
import { Type, type Static } from '@sinclair/typebox'
import {
  apiKey,
  cluster,
  healing,
  image,
  maintenanceWindows,
  metrics,
  persistence,
  podDisruptionBudget,
  readOnlyApiKey,
  resources,
  securityContext,
  service,
  shards,
  snapshotPersistence,
  tls,
  update,
} from './cluster-sections.ts'
import { MAX_CLUSTER_NAME } from './contract/limits.ts'
import { DNS_LABEL } from './contract/names.ts'
import {
  AGE_COLUMN,
  Count,
  ObjectName,
  StringMap,
  PassThrough,
  defineResource,
  rule,
  rules,
  isUnchanged,
} from './schema.ts'
import { status } from './cluster-status.ts'

function immutable(...fields: string[]) {
  return fields.map((field) => [isUnchanged(field), `spec.${field} is immutable`] as const)
}

const hibernation = Type.Object(
  {
    backupScheduleRef: Type.Optional(
      Type.Object(
        { name: ObjectName({ description: 'Name of the VecBackupSchedule.' }) },
        {
          description:
            'A VecBackupSchedule of this cluster in its namespace, which may be suspended. It creates a backup, and the pods are stopped once that is Completed.',
        },
      ),
    ),
  },
  { description: 'What happens before spec.hibernate stops the pods; default: nothing.' },
)

const spec = Type.Object(
  {
    version: Type.String({
      pattern: '^v?[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$',
      maxLength: 64,
      description:
        'Version of the engine and of its chart, with or without a leading v. Minor versions in between are applied one after the other.',
    }),
    replicas: Count({
      default: 1,
      maximum: 1000,
      description: 'Number of nodes; more than 1 requires cluster.enabled.',
    }),
    hibernate: Type.Optional(
      Type.Boolean({
        description:
          'No pods run, and the volumes stay; spec.replicas is the number of nodes that run again after it.',
      }),
    ),
    hibernation: Type.Optional(hibernation),
    maintenanceWindows: Type.Optional(maintenanceWindows),
    image,
    resources,
    persistence,
    snapshotPersistence,
    cluster,
    shards,
    resharding: Type.Optional(
      Type.Boolean({
        description:
          'Whether spec.shardNumber of the VecCollections of this cluster may be changed: their points are then moved while they are served. Requires version 1.18.3 or a later patch of 1.18, or a version of 1.19.',
      }),
    ),
    healing,
    update,
    service,
    apiKey: Type.Optional(apiKey),
    readOnlyApiKey: Type.Optional(readOnlyApiKey),
    tls,
    metrics,
    nodeSelector: Type.Optional(StringMap({ description: 'Passed through to the pods.' })),
    tolerations: Type.Optional(
      Type.Array(PassThrough(), { maxItems: 64, description: 'Passed through to the pods.' }),
    ),
    affinity: Type.Optional(PassThrough({ description: 'Passed through to the pods.' })),
    topologySpreadConstraints: Type.Optional(
      Type.Array(PassThrough(), { maxItems: 16, description: 'Passed through to the pods.' }),
    ),
    priorityClassName: Type.Optional(ObjectName({ description: 'PriorityClass of the pods.' })),
    terminationGracePeriodSeconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 3600,
        description: 'How long a node may take to stop; default: 30 s.',
      }),
    ),
    minReadySeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: 3600,
        description: 'How long a node must be ready before the next one is restarted.',
      }),
    ),
    imagePullSecrets: Type.Optional(
      Type.Array(Type.Object({ name: ObjectName({ description: 'Name of the Secret.' }) }), {
        maxItems: 16,
        description: 'Secrets with which the image is pulled.',
      }),
    ),
    securityContext,
    podLabels: Type.Optional(
      StringMap({
        description: 'Labels of the pods, in addition to those that the chart sets.',
      }),
    ),
    podAnnotations: Type.Optional(
      StringMap({
        description: 'Annotations of the pods, in addition to those that the chart sets.',
      }),
    ),
    podDisruptionBudget,
    config: PassThrough({
      default: {},
      description: "Merged over the operator's entries in the engine's configuration file.",
    }),
  },
  {
    description: 'Desired state of the cluster.',
    // Rules about a field whose default is {} are declared here: the API server evaluates a field's own
    // rules on the bare {}, before it fills in the defaults within.
    ...rules(
      ...immutable(
        'persistence.storageClassName',
        'persistence.accessModes',
        'cluster.p2p.port',
        'cluster.p2p.enableTls',
      ),
      [
        '!oldSelf.cluster.enabled || self.cluster.enabled',
        'spec.cluster.enabled cannot be switched off: the engine has no way back',
      ],
      [
        // Joining nodes wait for the first node, which is replaced last.
        'oldSelf.cluster.enabled || !self.cluster.enabled || self.replicas == 1',
        'spec.cluster.enabled is switched on with spec.replicas 1; add nodes once the cluster is Running',
      ],
      [
        'self.replicas <= 1 || self.cluster.enabled',
        'spec.replicas greater than 1 requires spec.cluster.enabled true',
      ],
      [
        '!has(self.readOnlyApiKey) || !(has(self.readOnlyApiKey.secretRef) || self.readOnlyApiKey.autoGenerate) || (has(self.apiKey) && (has(self.apiKey.secretRef) || self.apiKey.autoGenerate))',
        'spec.readOnlyApiKey requires spec.apiKey: alone it locks out every writer',
      ],
      [
        '!self.tls.enabled || has(self.tls.secretRef)',
        'spec.tls.enabled requires spec.tls.secretRef.name',
      ],
      [
        '!self.cluster.p2p.enableTls || self.tls.enabled',
        'spec.cluster.p2p.enableTls requires spec.tls.enabled: it uses the same certificate',
      ],
    ),
  },
)

export const VecCluster = defineResource({
  kind: 'VecCluster',
  plural: 'vecclusters',
  singular: 'veccluster',
  shortName: 'qc',
  description: 'A cluster of the vector engine, installed as one Helm release named vec-<name>.',
  spec,
  status,
  columns: [
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Replicas', type: 'integer', jsonPath: '.spec.replicas' },
    { name: 'Ready', type: 'integer', jsonPath: '.status.readyReplicas' },
    { name: 'Version', type: 'string', jsonPath: '.status.version' },
    { name: 'Desired Version', type: 'string', jsonPath: '.spec.version', priority: 1 },
    {
      ...{ name: 'Applied', type: 'string', priority: 1 },
      jsonPath: '.status.conditions[?(@.type=="Applied")].reason',
    },
    AGE_COLUMN,
  ],
  scale: {
    specReplicasPath: '.spec.replicas',
    statusReplicasPath: '.status.replicas',
    labelSelectorPath: '.status.selector',
  },
  rules: rule(
    `self.metadata.name.size() <= ${MAX_CLUSTER_NAME} && self.metadata.name.matches('^${DNS_LABEL}$')`,
    `metadata.name must be a DNS label of at most ${MAX_CLUSTER_NAME} characters`,
  ),
})

export type VecCluster = Static<typeof VecCluster.schema>

export type ClusterSpec = VecCluster['spec']

export type ClusterStatus = NonNullable<VecCluster['status']>
