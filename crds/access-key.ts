/** VecAccessKey: an access token signed with a cluster's API key, stored in a Secret and renewed. */
import { Type, type Static } from '@sinclair/typebox'
import { CollectionName } from './engine-fields.ts'
import { MAX_KEY_COLLECTIONS, MAX_VALUE_MATCHES } from './contract/limits.ts'
import {
  AGE_COLUMN,
  Duration,
  ObjectName,
  Enum,
  Ref,
  Timestamp,
  defineResource,
  rule,
  rules,
  statusFields,
  isUnchanged,
  maxCharacters,
} from './schema.ts'

const collections = Type.Array(
  Type.Object({
    name: CollectionName({ description: 'Name of the collection in the engine.' }),
    access: Enum(['r', 'rw', 'prw'], {
      description:
        'r reads; rw reads and writes points and manages indexes and snapshots; prw reads and writes points only.',
    }),
  }),
  {
    minItems: 1,
    maxItems: MAX_KEY_COLLECTIONS,
    description: 'Access per collection; excludes access.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['name'],
  },
)

/**
 * Any JSON scalar, because the engine distinguishes "1" from 1. A structural schema cannot list types, so
 * bounds that other kinds of values cannot meet reject them.
 */
const MatchValue = Type.Unsafe<string | number | boolean>(
  Type.Unknown({
    ...maxCharacters(1024),
    multipleOf: 1,
    maxItems: 0,
    maxProperties: 0,
    not: { enum: [{}, []] },
    description: 'A string, an integer or a boolean; "1" and 1 are not the same.',
  }),
)

const valueExists = Type.Object(
  {
    collection: CollectionName({ description: 'Collection that is searched for the point.' }),
    matches: Type.Array(
      Type.Object({
        key: Type.String({ minLength: 1, ...maxCharacters(512), description: 'Payload key.' }),
        value: MatchValue,
      }),
      {
        minItems: 1,
        maxItems: MAX_VALUE_MATCHES,
        description: 'Key-value pairs, all of which the point must have.',
      },
    ),
  },
  { description: 'The token is valid only while a matching point exists.' },
)

const spec = Type.Object(
  {
    clusterRef: Ref('VecCluster', {
      description: 'The cluster, whose apiKey.jwtRbac must be true. Immutable.',
      ...rule('self == oldSelf', 'spec.clusterRef is immutable'),
    }),
    access: Type.Optional(
      Enum(['r', 'm'], {
        description:
          'Access to the whole cluster: r reads everything, m manages everything; excludes collections.',
      }),
    ),
    collections: Type.Optional(collections),
    subject: Type.Optional(
      Type.String({ minLength: 1, ...maxCharacters(1024), description: 'Value of the claim sub.' }),
    ),
    ttl: Type.Optional(
      Duration({
        description: 'Lifetime of a token, such as 720h or 1h30m; default: it never expires.',
        ...rule("duration(self) >= duration('1m')", 'spec.ttl must be at least 1m'),
      }),
    ),
    renewBefore: Type.Optional(
      Duration({
        description: 'How long before its expiry a token is renewed; default: a third of ttl.',
        // A token that is renewed when it expires leaves clients without one.
        ...rule("duration(self) > duration('0s')", 'spec.renewBefore must be greater than 0s'),
      }),
    ),
    valueExists: Type.Optional(valueExists),
    secretName: Type.Optional(
      ObjectName({
        description: 'Name of the Secret with the token; default: metadata.name. Immutable.',
      }),
    ),
  },
  {
    description: 'Access that the token grants.',
    ...rules(
      [
        'has(self.access) != has(self.collections)',
        'exactly one of spec.access and spec.collections is required',
      ],
      ['!has(self.renewBefore) || has(self.ttl)', 'spec.renewBefore requires spec.ttl'],
      [
        '!has(self.renewBefore) || !has(self.ttl) || duration(self.renewBefore) < duration(self.ttl)',
        'spec.renewBefore must be less than spec.ttl',
      ],
      [isUnchanged('secretName'), 'spec.secretName is immutable'],
    ),
  },
)

const status = Type.Object({
  phase: Type.Optional(
    Enum(['Pending', 'Ready', 'Failed'], { description: 'Whether the Secret holds a token.' }),
  ),
  secretRef: Type.Optional(
    Type.Object(
      {
        name: Type.String({ description: 'Name of the Secret.' }),
        key: Type.String({ description: 'Key within the Secret: token.' }),
      },
      { description: 'Secret and key of the token.' },
    ),
  ),
  issuedAt: Type.Optional(Timestamp({ description: 'When the token was issued.' })),
  expiresAt: Type.Optional(Timestamp({ description: 'When the token expires.' })),
  renewAt: Type.Optional(Timestamp({ description: 'When the token is renewed.' })),
  keyFingerprint: Type.Optional(
    Type.String({
      description: 'First sixteen hex digits of the SHA-256 of the key that signed it.',
    }),
  ),
  error: Type.Optional(Type.String({ description: 'Why the phase is Failed.' })),
  ...statusFields,
})

export const VecAccessKey = defineResource({
  kind: 'VecAccessKey',
  plural: 'vecaccesskeys',
  singular: 'vecaccesskey',
  shortName: 'qak',
  description: "A role-based access token, signed with a cluster's API key and stored in a Secret.",
  spec,
  status,
  columns: [
    { name: 'Cluster', type: 'string', jsonPath: '.spec.clusterRef.name' },
    { name: 'Access', type: 'string', jsonPath: '.spec.access' },
    { name: 'Phase', type: 'string', jsonPath: '.status.phase' },
    { name: 'Secret', type: 'string', jsonPath: '.status.secretRef.name' },
    // Not of type date: kubectl shows a date in the future as <invalid>.
    { name: 'Expires', type: 'string', jsonPath: '.status.expiresAt' },
    AGE_COLUMN,
  ],
})
export type VecAccessKey = Static<typeof VecAccessKey.schema>
export type AccessKeySpec = VecAccessKey['spec']
export type AccessKeyStatus = NonNullable<VecAccessKey['status']>
