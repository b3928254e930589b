/** The sections of a VecCluster's spec; cluster.ts combines them and adds the rules between them. */
import { Type } from '@sinclair/typebox'
import { CRON_PATTERN } from './cron.ts'
import {
  Duration,
  NumberOrQuantity,
  ObjectName,
  Enum,
  Quantity,
  SecretKeyRef,
  StringMap,
  maxCharacters,
  rule,
  rules,
} from './schema.ts'

/** Registry, port and path. The chart writes the value into YAML without escaping, so nothing else is accepted. */
export const IMAGE_REPOSITORY =
  '^[a-zA-Z0-9][a-zA-Z0-9._-]*(:[0-9]{1,5})?(/[a-zA-Z0-9][a-zA-Z0-9._-]*)*$'

export const IMAGE_DIGEST = '^sha256:[0-9a-f]{64}$'

export const image = Type.Object(
  {
    repository: Type.String({
      default: 'docker.io/qdrant/qdrant',
      minLength: 1,
      maxLength: 512,
      pattern: IMAGE_REPOSITORY,
      description:
        "The engine's image, without tag or digest: the tag always follows version, and digest is a field of its own.",
    }),
    digest: Type.Optional(
      Type.String({
        maxLength: 71,
        pattern: IMAGE_DIGEST,
        description:
          'Digest of the image of version, such as sha256:… with 64 hex digits: the pods then run exactly this image, whatever its tag names later. It changes together with version and unprivileged.',
      }),
    ),
    pullPolicy: Enum(['Always', 'IfNotPresent', 'Never'], {
      default: 'IfNotPresent',
      description: 'When the image is pulled.',
    }),
    unprivileged: Type.Optional(
      Type.Boolean({
        description:
          "Whether the image whose tag ends in -unprivileged is used. Its pods satisfy the Pod Security Standard restricted; volumes must already belong to the image's user.",
      }),
    ),
  },
  { default: {}, description: 'Image of the engine.' },
)

/** Kubernetes accepts no larger ids. */
const MAX_ID = 2_147_483_647

function id(description: string) {
  return Type.Optional(Type.Integer({ minimum: 1, maximum: MAX_ID, description }))
}

/** Not all fields of Kubernetes: an author of a VecCluster must not get a privileged pod. */
export const securityContext = Type.Optional(
  Type.Object(
    {
      runAsUser: id("User of the engine's process; default: 1000."),
      runAsGroup: id("Group of the engine's process; default: 2000."),
      fsGroup: id('Group of the volumes, of which the process is a member; default: 3000.'),
      fsGroupChangePolicy: Type.Optional(
        Enum(['Always', 'OnRootMismatch'], {
          description:
            'Whether the kubelet sets the group of all files whenever a pod starts, or only if the root of the volume has another group; default: Always.',
        }),
      ),
    },
    { description: 'User and groups of the pods.' },
  ),
)

function resourceAmounts(description: string) {
  return Type.Optional(
    Type.Object(
      {
        cpu: Type.Optional(NumberOrQuantity({ description: 'Cores, such as 500m or 2.' })),
        memory: Type.Optional(NumberOrQuantity({ description: 'Bytes, such as 4Gi.' })),
      },
      { description },
    ),
  )
}

export const resources = Type.Object(
  {
    requests: resourceAmounts('What is set aside for a pod.'),
    limits: resourceAmounts('What a pod may use at most.'),
  },
  { default: {}, description: 'Compute resources of each pod; the chart sets no defaults.' },
)

function storageClassName(note: string) {
  return Type.Optional(
    ObjectName({
      description: `Storage class of the volume; default: that of the Kubernetes cluster. ${note}`,
    }),
  )
}

const volumeAttributesClassName = Type.Optional(
  ObjectName({
    description:
      'VolumeAttributesClass of the volume. Can be changed if the storage driver modifies volumes; the pods keep running.',
  }),
)

export const persistence = Type.Object(
  {
    size: Quantity({
      default: '10Gi',
      description:
        'Size of each data volume. Can be raised if the StorageClass allows expansion; the pods keep running.',
    }),
    storageClassName: storageClassName('Immutable.'),
    volumeAttributesClassName,
    accessModes: Type.Array(
      Enum(['ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany', 'ReadOnlyMany']),
      {
        default: ['ReadWriteOnce'],
        minItems: 1,
        maxItems: 4,
        description: 'How the volume may be mounted. Immutable.',
      },
    ),
    autoGrow: Type.Optional(
      Type.Object(
        {
          above: Type.Integer({
            default: 70,
            minimum: 10,
            maximum: 90,
            description: 'Percent of a volume that is in use when the volumes grow.',
          }),
          by: Type.String({
            default: '25%',
            maxLength: 32,
            pattern: '^([1-9][0-9]{0,2}[%]|[1-9][0-9]*(M|G|T|Mi|Gi|Ti))$',
            description: 'By how much: percent of the size, or a quantity.',
          }),
          max: Quantity({
            description: 'Size beyond which the volumes do not grow by themselves.',
          }),
        },
        {
          description:
            'Growth of the data volumes when the data need it. The size stays when autoGrow is removed; a larger persistence.size wins.',
        },
      ),
    ),
    onScaleIn: Enum(['Delete', 'Keep'], {
      default: 'Delete',
      description:
        'What happens to the volume of a node that was drained and removed. A kept volume must be deleted before a node of that number is added again.',
    }),
    onDelete: Type.Optional(
      Enum(['Retain', 'Delete'], {
        description:
          'What happens to the data volumes and snapshot volumes when the VecCluster is deleted; default: Retain. Can be changed at any time; the pods keep running.',
      }),
    ),
  },
  {
    default: {},
    description: 'Data volume of each pod.',
  },
)

export const snapshotPersistence = Type.Object(
  {
    enabled: Type.Boolean({
      default: false,
      description: 'Whether snapshots have a separate volume. Fixed when the cluster is created.',
    }),
    size: Quantity({
      default: '10Gi',
      description: 'Size of each snapshot volume. Can be raised like persistence.size.',
    }),
    storageClassName: storageClassName('Fixed when the cluster is created.'),
    volumeAttributesClassName,
  },
  { default: {}, description: 'Snapshot volume of each pod.' },
)

export const cluster = Type.Object(
  {
    enabled: Type.Boolean({
      default: true,
      description: 'Distributed mode. Can be switched on while replicas is 1, and never off.',
    }),
    p2p: Type.Object(
      {
        port: Type.Integer({
          default: 6335,
          minimum: 1,
          maximum: 65535,
          description: 'Port between the nodes. Immutable.',
        }),
        enableTls: Type.Boolean({
          default: false,
          description:
            'TLS between the nodes with the certificate of tls.secretRef, which must name vec-<name>-<i>.vec-<name>-headless of every pod, without wildcard, for server and client authentication. Immutable.',
        }),
      },
      { default: {}, description: 'Traffic between the nodes.' },
    ),
  },
  {
    default: {},
    description: 'How the nodes form one engine cluster.',
  },
)

export const service = Type.Object(
  {
    type: Enum(['ClusterIP', 'NodePort', 'LoadBalancer'], {
      default: 'ClusterIP',
      description: 'How clients reach the Service.',
    }),
    annotations: StringMap({ default: {}, description: 'Annotations of the Service.' }),
  },
  { default: {}, description: 'The client Service.' },
)

const apiKeySource = {
  secretRef: Type.Optional(
    Type.Object(SecretKeyRef.properties, {
      description: 'Secret with your own key; excludes autoGenerate.',
    }),
  ),
  autoGenerate: Type.Boolean({
    default: false,
    description: 'The chart generates the key and stores it in the Secret vec-<name>-apikey.',
  }),
}

function exclusiveSources(field: string) {
  return [
    '!(has(self.secretRef) && self.autoGenerate)',
    `spec.${field}: secretRef and autoGenerate exclude each other`,
  ] as const
}

export const apiKey = Type.Object(
  {
    ...apiKeySource,
    jwtRbac: Type.Boolean({
      default: false,
      description: 'Whether access tokens (VecAccessKey) are accepted.',
    }),
    rotation: Type.Optional(
      Type.Object(
        {
          overlap: Duration({
            default: '1h',
            description:
              'For how long all nodes accept the former key after a new one is in the Secret vec-<name>-apikey; at least 5m.',
            ...rule(
              "duration(self) >= duration('5m')",
              'spec.apiKey.rotation.overlap must be at least 5m',
            ),
          }),
        },
        {
          description:
            'A new key is accepted in addition to the former one before it replaces it, so no client is refused. Requires version 1.17.0. Default: nodes change to a new key one by one.',
        },
      ),
    ),
  },
  {
    description: 'Full-access key.',
    ...rules(exclusiveSources('apiKey'), [
      '!self.jwtRbac || has(self.secretRef) || self.autoGenerate',
      'spec.apiKey.jwtRbac requires secretRef or autoGenerate',
    ]),
  },
)

export const readOnlyApiKey = Type.Object(apiKeySource, {
  description: 'Read-only key, for clients; the operator never uses it.',
  ...rules(exclusiveSources('readOnlyApiKey')),
})

export const tls = Type.Object(
  {
    enabled: Type.Boolean({
      default: false,
      description: 'Whether HTTPS and TLS for gRPC are used.',
    }),
    secretRef: Type.Optional(
      Type.Object(
        { name: ObjectName({ description: 'Name of the Secret.' }) },
        {
          description:
            'Secret of type kubernetes.io/tls: tls.crt, tls.key and, for a private CA, ca.crt.',
        },
      ),
    ),
    restartOnRenewal: Type.Optional(
      Type.Boolean({
        description:
          'Whether the nodes are restarted one by one after a renewal of the certificate, which gRPC and the connections between nodes use only then; default: true.',
      }),
    ),
  },
  {
    default: {},
    description: 'Encryption of client connections.',
  },
)

export const metrics = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Whether metrics are scraped.' }),
    serviceMonitor: Type.Object(
      {
        enabled: Type.Boolean({
          default: false,
          description: 'Rendered only with metrics.enabled; the monitoring CRDs must exist.',
        }),
        interval: Duration({ default: '30s', description: 'Scrape interval.' }),
        labels: StringMap({ default: {}, description: 'Added to the ServiceMonitor.' }),
      },
      { default: {}, description: 'ServiceMonitor with which Prometheus scrapes the nodes.' },
    ),
  },
  { default: {}, description: 'Monitoring.' },
)

export const shards = Type.Object(
  {
    balance: Enum(['Never', 'OnScale', 'Always'], {
      default: 'OnScale',
      description:
        'When replicas move to nodes with less data: after the number of nodes has changed, or whenever the nodes differ.',
    }),
    maxTransfers: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 16,
      description: 'Number of shards that are transferred at the same time.',
    }),
  },
  { default: {}, description: 'Placement of shards.' },
)

export const healing = Type.Object(
  {
    replicas: Type.Boolean({
      default: true,
      description:
        'Whether missing replicas are created and defective ones are replaced from an Active one.',
    }),
    lostNodes: Enum(['Manual', 'WhenSafe'], {
      default: 'Manual',
      description:
        'Who decides that a node with a lost volume is replaced: the annotation vec-operator.dev/replace, or the operator, if every shard has an Active replica on another node.',
    }),
  },
  { default: {}, description: 'Repair of replicas and replacement of nodes.' },
)

export const update = Type.Object(
  {
    singleCopies: Enum(['Restart', 'Refuse'], {
      default: 'Restart',
      description:
        'Whether a node may restart for an update that has shards of collections with replication factor 1: they are not available meanwhile.',
    }),
  },
  { default: {}, description: 'Rolling updates of a cluster with several nodes.' },
)

export const podDisruptionBudget = Type.Object(
  {
    enabled: Type.Optional(
      Type.Boolean({
        description: 'Whether there is a PodDisruptionBudget; default: from three nodes on.',
      }),
    ),
    maxUnavailable: Type.Integer({
      default: 1,
      minimum: 1,
      maximum: 1000,
      description: 'Nodes that may be evicted at the same time.',
    }),
  },
  { default: {}, description: 'Limit for voluntary evictions, such as draining Kubernetes nodes.' },
)

export const maintenanceWindows = Type.Array(
  Type.Object({
    schedule: Type.String({
      minLength: 9,
      ...maxCharacters(128),
      description: 'When the window begins: minute, hour, day, month, weekday.',
      ...rule(
        `self.matches('${CRON_PATTERN}')`,
        'spec.maintenanceWindows: schedule must be a cron expression of five fields: minute, hour, day, month, weekday',
      ),
    }),
    duration: Duration({
      description: 'How long it lasts, such as 3h.',
      ...rule(
        "duration(self) >= duration('10m')",
        'spec.maintenanceWindows: duration must be at least 10m',
      ),
    }),
    timeZone: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: '^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$',
        description: 'Time zone of the schedule, such as Europe/Berlin; default: UTC.',
      }),
    ),
  }),
  {
    maxItems: 16,
    description:
      'When helm runs that may restart pods, removals of nodes, changes of numbers of shards and balance may begin; default: always. Repairs begin at any time.',
  },
)
