/** Bucket fields that several kinds share: the location of snapshots and the Secret keys of credentials. */
import { Type, type Static } from '@sinclair/typebox'
import { ANNOTATIONS } from './contract/names.ts'
import { isCertificateBundle, type CaRef } from './certificates.ts'
import { secretValue, type AnyObject, type ConfigMap, type Secret } from './kubernetes.ts'
import {
  Enum,
  maxCharacters,
  ObjectName,
  rule,
  rules,
  SecretKey,
  type ConditionReason,
  type NamespacedName,
} from './schema.ts'

/**
 * An http or https URL without user, query or fragment: status and logs show it. The pattern lists the
 * spaces, because \s is a different set in RE2, which the API server uses for admission
 * (hooks/data-job/preconditions.ts rejects the other spaces).
 */
export const URL_PATTERN = '^https?://[^ \\t\\n\\v\\f\\r/?#@]+(/[^ \\t\\n\\v\\f\\r?#@]*)?$'

/** Reference to a certificate authority in an object of this kind. */
function caRef(kind: 'Secret' | 'ConfigMap', excluded: string) {
  return Type.Optional(
    Type.Object(
      {
        name: ObjectName({
          description: `Name of the ${kind}, in the namespace of this resource.`,
        }),
        key: SecretKey({ default: 'ca.crt', description: `Key within the ${kind}.` }),
      },
      {
        description: `${kind} with the certificate authority (PEM) of the store and, with serviceAccountName, of the token service; trusted in addition to those of the system. Excludes ${excluded}.`,
      },
    ),
  )
}

const s3Fields = {
  bucket: Type.String({
    minLength: 1,
    maxLength: 255,
    pattern: '^[a-zA-Z0-9][a-zA-Z0-9._-]*$',
    description: 'Name of the bucket.',
  }),
  region: Type.String({
    default: 'us-east-1',
    minLength: 1,
    maxLength: 64,
    pattern: '^[a-zA-Z0-9_-]+$',
    description: 'Region of the bucket.',
  }),
  endpoint: Type.Optional(
    Type.String({
      ...maxCharacters(2048),
      pattern: URL_PATTERN,
      description: 'Address of an S3-compatible store; default: that of the provider.',
    }),
  ),
  forcePathStyle: Type.Boolean({
    default: false,
    description:
      'Whether the bucket is in the path instead of the host name, as some stores require.',
  }),
  credentialsSecretRef: Type.Optional(
    Type.Object(
      {
        name: ObjectName({ description: 'Name of the Secret, in the namespace of this resource.' }),
        accessKeyIdKey: SecretKey({
          default: 'CLOUD_ACCESS_KEY_ID',
          description: 'Key within the Secret that holds the access key id.',
        }),
        secretAccessKeyKey: SecretKey({
          default: 'CLOUD_SECRET_ACCESS_KEY',
          description: 'Key within the Secret that holds the secret access key.',
        }),
        sessionTokenKey: Type.Optional(
          SecretKey({
            description:
              'Key within the Secret that holds the session token of temporary credentials. Default: AWS_SESSION_TOKEN with AWS_ACCESS_KEY_ID, CLOUD_SESSION_TOKEN with CLOUD_ACCESS_KEY_ID, where the Secret has it.',
          }),
        ),
      },
      { description: 'Secret with the credentials of the bucket; excludes serviceAccountName.' },
    ),
  ),
  serviceAccountName: Type.Optional(
    ObjectName({
      description:
        'ServiceAccount in the namespace of this resource whose cloud identity (IRSA, EKS Pod Identity) the Job uses instead of a Secret. It needs the annotation vec-operator.dev/data-jobs: allow.',
    }),
  ),
  caSecretRef: caRef('Secret', 'caConfigMapRef'),
  caConfigMapRef: caRef('ConfigMap', 'caSecretRef'),
}

/** Access to the bucket is by a Secret or by an identity, never by both; its authority is in one object. */
function accessRules(field: string) {
  return rules(
    [
      'has(self.credentialsSecretRef) != has(self.serviceAccountName)',
      `exactly one of ${field}.credentialsSecretRef and ${field}.serviceAccountName is required`,
    ],
    [
      '!has(self.caSecretRef) || !has(self.caConfigMapRef)',
      `at most one of ${field}.caSecretRef and ${field}.caConfigMapRef is allowed`,
    ],
  )
}

// Stores on a file system treat these as directories and would leave the prefix.
function withoutDotSegments(field: string) {
  return rule(
    "!self.matches('(^|/)[.]{1,2}(/|$)')",
    `${field} must not have . or .. between its slashes`,
  )
}

/** A bucket to write to. */
export const S3Target = Type.Object(
  {
    ...s3Fields,
    prefix: Type.String({
      default: '',
      ...maxCharacters(512),
      description: 'A backup is stored under <prefix>/<name>/.',
      ...withoutDotSegments('spec.storage.s3.prefix'),
    }),
    encryption: Type.Optional(
      Type.Object(
        {
          type: Enum(['AES256', 'aws:kms', 'aws:kms:dsse'], {
            description: 'Server-side encryption that each write asks for.',
          }),
          kmsKeyId: Type.Optional(
            Type.String({
              minLength: 1,
              maxLength: 2048,
              pattern: '^[a-zA-Z0-9:_-]+(/[a-zA-Z0-9:_-]+)*$',
              description: 'Key of the KMS; default: that of the bucket, or of the account.',
            }),
          ),
        },
        {
          description:
            'Server-side encryption of the objects; default: as the bucket is configured. A write that the store does not confirm as encrypted fails.',
          ...rule(
            "self.type != 'AES256' || !has(self.kmsKeyId)",
            'kmsKeyId needs a type of aws:kms or aws:kms:dsse',
          ),
        },
      ),
    ),
    storageClass: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 64,
        pattern: '^[A-Z0-9_]+$',
        description:
          'Storage class of the snapshots, such as STANDARD_IA; default: that of the store. The manifest always has the default class.',
        ...rule(
          "!(self in ['GLACIER', 'DEEP_ARCHIVE'])",
          'objects of GLACIER and DEEP_ARCHIVE cannot be read before the store has restored them: use GLACIER_IR or a lifecycle rule',
        ),
      }),
    ),
  },
  { description: 'A bucket of an S3-compatible store.', ...accessRules('spec.storage.s3') },
)
export type S3Target = Static<typeof S3Target>

/** A bucket to read from. */
export const S3Source = Type.Object(
  {
    ...s3Fields,
    path: Type.String({
      minLength: 1,
      ...maxCharacters(1024),
      description: 'Key prefix that holds manifest.json.',
      ...withoutDotSegments('spec.source.s3.path'),
    }),
  },
  { description: 'A bucket of an S3-compatible store.', ...accessRules('spec.source.s3') },
)
export type S3Source = Static<typeof S3Source>

/** Where backups are stored. */
export const Storage = Type.Object({ s3: S3Target }, { description: 'Where backups are kept.' })
export type Storage = Static<typeof Storage>

export type CredentialsSecretRef = NonNullable<S3Target['credentialsSecretRef']>

/** How a bucket is accessed: exactly one of credentialsSecretRef and serviceAccountName is set. */
export type BucketAccess = Pick<
  S3Target,
  'credentialsSecretRef' | 'serviceAccountName' | 'caSecretRef' | 'caConfigMapRef'
>

/** Fallback keys for a bucket's Secret without the keys of the default names. */
const FALLBACK_KEYS: Record<string, string> = {
  CLOUD_ACCESS_KEY_ID: 'AWS_ACCESS_KEY_ID',
  CLOUD_SECRET_ACCESS_KEY: 'AWS_SECRET_ACCESS_KEY',
}

/** Key of the session token for an access key of a default name; used if the Secret contains it. */
const SESSION_TOKEN_KEYS: Record<string, string> = {
  CLOUD_ACCESS_KEY_ID: 'CLOUD_SESSION_TOKEN',
  AWS_ACCESS_KEY_ID: 'AWS_SESSION_TOKEN',
}

/** Key of the session token for the access key in `accessKeyIdKey`; undefined: no default session token. */
export function defaultSessionTokenKey(accessKeyIdKey: string): string | undefined {
  return SESSION_TOKEN_KEYS[accessKeyIdKey]
}

/** Every key of a Secret that can contain credentials of a bucket. */
export function credentialKeys(reference: CredentialsSecretRef): string[] {
  const { accessKeyIdKey, secretAccessKeyKey, sessionTokenKey } = reference
  const ids = secretKeyAliases(accessKeyIdKey)
  const tokens = sessionTokenKey === undefined ? ids.map(defaultSessionTokenKey) : [sessionTokenKey]
  return [
    ...ids,
    ...secretKeyAliases(secretAccessKeyKey),
    ...tokens.filter((key) => key !== undefined),
  ]
}

/** The keys of a Secret that can contain a value, in order of precedence. */
export function secretKeyAliases(key: string): string[] {
  const fallback = FALLBACK_KEYS[key]
  return fallback === undefined ? [key] : [key, fallback]
}

/** Secrets of these types belong to Kubernetes and Helm and never contain bucket credentials. */
const NON_CREDENTIAL_TYPES =
  /^(kubernetes\.io\/(service-account-token|dockercfg|dockerconfigjson|ssh-auth)|bootstrap\.kubernetes\.io\/token|helm\.sh\/.*)$/

/**
 * A resource names both the Secret and the address that receives its content, and its author may have no
 * permission to read Secrets. The certificates of a TLS Secret may be used, the private key may not.
 */
export function isCredentialType(type: string, keys: readonly string[]): boolean {
  const isCertificate = keys.every((key) => ['ca.crt', 'tls.crt'].includes(key))
  return !NON_CREDENTIAL_TYPES.test(type) && (type !== 'kubernetes.io/tls' || isCertificate)
}

/**
 * Why Jobs must not run under a ServiceAccount; undefined if they may. The author of a VecBackup may not be allowed to
 * run pods under it, so that it has to permit data Jobs itself.
 */
export function serviceAccountError(
  { namespace, name }: NamespacedName,
  account: AnyObject | undefined,
): ConditionReason | undefined {
  const label = `ServiceAccount ${namespace}/${name}`
  if (account === undefined || account.metadata.deletionTimestamp !== undefined) {
    return { reason: 'ServiceAccountNotFound', message: `${label} not found` }
  }
  if (account.metadata.annotations?.[ANNOTATIONS.dataJobs] === 'allow') return undefined
  return {
    reason: 'ServiceAccountNotAllowed',
    message: `${label} does not allow data Jobs: set its annotation ${ANNOTATIONS.dataJobs} to allow`,
  }
}

/** What a bucket names as its certificate authority; undefined if it names nothing. */
export function caRefOf({ caSecretRef, caConfigMapRef }: BucketAccess): CaRef | undefined {
  if (caSecretRef !== undefined) return { field: 'caSecretRef', kind: 'Secret', ...caSecretRef }
  return caConfigMapRef && { field: 'caConfigMapRef', kind: 'ConfigMap', ...caConfigMapRef }
}

/** The text in the named key; undefined without the object or the key. */
export function caValue(
  { key }: CaRef,
  object: Secret | ConfigMap | undefined,
): string | undefined {
  return object?.kind === 'ConfigMap' ? object.data?.[key] : secretValue(object, key)
}

/** Why a certificate authority cannot be used; undefined if it can. `bucket` is the field of the bucket. */
export function caError(
  bucket: string,
  reference: CaRef,
  namespace: string,
  object: Secret | ConfigMap | undefined,
): ConditionReason | undefined {
  const { field, kind, name, key } = reference
  const label = `${bucket}.${field}: ${kind} ${namespace}/${name}`
  const isSecret = kind === 'Secret'
  if (object === undefined) {
    const reason = isSecret ? 'SecretNotFound' : 'ConfigMapNotFound'
    return { reason, message: `${label} not found` }
  }
  const type = object.kind === 'Secret' ? (object.type ?? 'Opaque') : 'Opaque'
  if (!isCredentialType(type, [key])) {
    return {
      reason: 'InvalidSecret',
      message: `${label} is of type ${type}, which cannot hold credentials; use a Secret of type Opaque`,
    }
  }
  const value = caValue(reference, object) ?? ''
  if (value === '') {
    const reason = isSecret ? 'InvalidSecret' : 'InvalidConfigMap'
    return { reason, message: `${label} has no value in key ${key}` }
  }
  if (isCertificateBundle(value)) return undefined
  const message = `${label} has no valid certificate (PEM) in key ${key}`
  return { reason: 'InvalidCertificate', message }
}
