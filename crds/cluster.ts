/** VecCluster: one Helm release of the engine's chart, named `vec-<name>`. */
import { Type, type Static } from '@sinclair/typebox'
import { MAX_CLUSTER_NAME } from './limits.ts'
import {
  AGE,
  Count,
  Duration,
  NumberOrQuantity,
  ObjectName,
  OneOf,
  Quantity,
  SecretKeyRef,
  StringMap,
  Verbatim,
  resource,
  rule,
  rules,
  statusBase,
  unchanged,
} from './schema.ts'

const image = Type.Object(
  {
    repository: Type.String({
      default: 'docker.io/qdrant/qdrant',
      minLength: 1,
      maxLength: 512,
      description: "The engine's image; its tag always follows version.",
    }),
    pullPolicy: OneOf(['Always', 'IfNotPresent', 'Never'], {
      default: 'IfNotPresent',
      description: 'When the image is pulled.',
    }),
  },
  { default: {}, description: 'Where the engine comes from.' },
)

function amounts(description: string) {
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

const resources = Type.Object(
  {
    requests: amounts('What is set aside for a pod.'),
    limits: amounts('What a pod may use at most.'),
  },
  { default: {}, description: 'Compute resources of each pod; the chart sets none by itself.' },
)

function storageClassName(note: string) {
  return Type.Optional(
    ObjectName({
      description: `Storage class of the volume; default: that of the Kubernetes cluster. ${note}`,
    }),
  )
}

const persistence = Type.Object(
  {
    size: Quantity({ default: '10Gi', description: 'Size of each data volume. Immutable.' }),
    storageClassName: storageClassName('Immutable.'),
    accessModes: Type.Array(
      OneOf(['ReadWriteOnce', 'ReadWriteOncePod', 'ReadWriteMany', 'ReadOnlyMany']),
      {
        default: ['ReadWriteOnce'],
        minItems: 1,
        maxItems: 4,
        description: 'How the volume may be mounted. Immutable.',
      },
    ),
  },
  {
    default: {},
    description: 'Data volume of each pod.',
  },
)

const snapshotPersistence = Type.Object(
  {
    enabled: Type.Boolean({
      default: false,
      description: 'A volume of its own for snapshots. Fixed when the cluster is created.',
    }),
    size: Quantity({ default: '10Gi', description: 'Size of each snapshot volume.' }),
    storageClassName: storageClassName('Fixed when the cluster is created.'),
  },
  { default: {}, description: 'Snapshot volume of each pod. Fixed when the cluster is created.' },
)

const cluster = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'Distributed mode. Immutable.' }),
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
            'TLS between the nodes with the certificate of tls.secretRef, which must cover the headless pod names. Immutable.',
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

const service = Type.Object(
  {
    type: OneOf(['ClusterIP', 'NodePort', 'LoadBalancer'], {
      default: 'ClusterIP',
      description: 'How clients reach it.',
    }),
    annotations: StringMap({ default: {}, description: 'Annotations of the Service.' }),
  },
  { default: {}, description: 'The client Service.' },
)

const keySource = {
  secretRef: Type.Optional(
    Type.Object(SecretKeyRef.properties, {
      description: 'A key of your own; excludes autoGenerate.',
    }),
  ),
  autoGenerate: Type.Boolean({
    default: false,
    description: 'The chart generates the key and keeps it in the Secret vec-<name>-apikey.',
  }),
}

function oneSource(field: string) {
  return [
    '!(has(self.secretRef) && self.autoGenerate)',
    `spec.${field}: secretRef and autoGenerate exclude each other`,
  ] as const
}

const apiKey = Type.Object(
  {
    ...keySource,
    jwtRbac: Type.Boolean({
      default: false,
      description: 'Access tokens (VecAccessKey) are accepted.',
    }),
  },
  {
    description: 'Full-access key.',
    ...rules(oneSource('apiKey'), [
      '!self.jwtRbac || has(self.secretRef) || self.autoGenerate',
      'spec.apiKey.jwtRbac requires secretRef or autoGenerate',
    ]),
  },
)

const readOnlyApiKey = Type.Object(keySource, {
  description: 'Read-only key, for clients; the operator never uses it.',
  ...rules(oneSource('readOnlyApiKey')),
})

const tls = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'HTTPS and TLS for gRPC.' }),
    secretRef: Type.Optional(
      Type.Object(
        { name: ObjectName({ description: 'Name of the Secret.' }) },
        {
          description:
            'Secret of type kubernetes.io/tls: tls.crt, tls.key and, for a private CA, ca.crt.',
        },
      ),
    ),
  },
  {
    default: {},
    description: 'Encryption towards clients.',
  },
)

const metrics = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Metrics are meant to be scraped.' }),
    serviceMonitor: Type.Object(
      {
        enabled: Type.Boolean({
          default: false,
          description: 'Rendered only with metrics.enabled; the monitoring CRDs must exist.',
        }),
        interval: Duration({ default: '30s', description: 'Scrape interval.' }),
        labels: StringMap({ default: {}, description: 'Added to the ServiceMonitor.' }),
      },
      { default: {}, description: 'Object that tells Prometheus to scrape the nodes.' },
    ),
  },
  { default: {}, description: 'Monitoring.' },
)

function fixed(...fields: string[]) {
  return fields.map((field) => [unchanged(field), `spec.${field} is immutable`] as const)
}

const spec = Type.Object(
  {
    version: Type.String({
      pattern: '^v?[0-9]+\\.[0-9]+\\.[0-9]+(-[0-9A-Za-z.-]+)?$',
      maxLength: 64,
      description: 'Version of the engine and of its chart, with or without a leading v.',
    }),
    replicas: Count({
      default: 1,
      maximum: 1000,
      description: 'Number of nodes; more than 1 requires cluster.enabled.',
    }),
    image,
    resources,
    persistence,
    snapshotPersistence,
    cluster,
    service,
    apiKey: Type.Optional(apiKey),
    readOnlyApiKey: Type.Optional(readOnlyApiKey),
    tls,
    metrics,
    nodeSelector: Type.Optional(StringMap({ description: 'Passed through to the pods.' })),
    tolerations: Type.Optional(
      Type.Array(Verbatim(), { maxItems: 64, description: 'Passed through to the pods.' }),
    ),
    affinity: Type.Optional(Verbatim({ description: 'Passed through to the pods.' })),
    config: Verbatim({
      default: {},
      description: "Merged over the operator's entries in the engine's configuration file.",
    }),
  },
  {
    description: 'What the cluster should be.',
    // Rules about a field whose default is {} stand here: the API server tries a field's own rules on
    // that bare {}, before the defaults within are filled in.
    ...rules(
      ...fixed(
        'persistence.size',
        'persistence.storageClassName',
        'persistence.accessModes',
        'cluster.enabled',
        'cluster.p2p.port',
        'cluster.p2p.enableTls',
      ),
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

const status = Type.Object({
  phase: Type.Optional(
    OneOf(['Pending', 'Upgrading', 'Running'], { description: 'Where the rollout stands.' }),
  ),
  replicas: Type.Optional(Type.Integer({ description: 'Desired number of nodes.' })),
  readyReplicas: Type.Optional(
    Type.Integer({ description: 'Nodes the StatefulSet reports ready.' }),
  ),
  version: Type.Optional(Type.String({ description: 'spec.version as last applied.' })),
  helmRelease: Type.Optional(Type.String({ description: 'vec-<name>' })),
  endpoint: Type.Optional(Type.String({ description: 'HTTP address of the client Service.' })),
  appliedGeneration: Type.Optional(
    Type.Integer({ format: 'int64', description: 'Generation the last helm run applied.' }),
  ),
  appliedRun: Type.Optional(
    Type.Integer({ description: 'Number of the helm run whose rollout this status shows.' }),
  ),
  ...statusBase,
})

export const VecCluster = resource({
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
    { name: 'Version', type: 'string', jsonPath: '.spec.version' },
    AGE,
  ],
  rules: rule(
    `self.metadata.name.size() <= ${MAX_CLUSTER_NAME} && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')`,
    `metadata.name must be a DNS label of at most ${MAX_CLUSTER_NAME} characters`,
  ),
})
export type VecCluster = Static<typeof VecCluster.schema>
export type ClusterSpec = VecCluster['spec']
export type ClusterStatus = NonNullable<VecCluster['status']>
