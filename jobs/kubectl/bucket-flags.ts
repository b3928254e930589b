/** The flags of commands that read a bucket without a Kubernetes cluster, and the bucket that they name. */
import { readFile } from 'node:fs/promises'
import { errorMessage } from '../clients/http/request.ts'
import type { Bucket } from '../clients/s3/bucket.ts'
import {
  booleanFlag,
  CliError,
  ENVIRONMENT_CREDENTIALS,
  EXIT_CODES,
  requireCredentials,
  stringFlag,
  type Flag,
  type Invocation,
} from './command.ts'

export const CREDENTIALS_HELP =
  'Credentials come from the environment: CLOUD_ACCESS_KEY_ID and CLOUD_SECRET_ACCESS_KEY, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for temporary ones also CLOUD_SESSION_TOKEN or AWS_SESSION_TOKEN.'

export const BUCKET_FLAGS = {
  endpoint: { type: 'string', value: 'URL', description: 'endpoint of an S3-compatible store' },
  region: {
    type: 'string',
    value: 'REGION',
    default: 'us-east-1',
    description: 'region of the bucket; default: us-east-1',
  },
  'path-style': { type: 'boolean', description: 'put the bucket into the path of the URL' },
  ca: { type: 'string', value: 'FILE', description: 'certificate authority of the store, PEM' },
} as const satisfies Record<string, Flag>

/** The parts of `s3://<bucket>/<path>`; undefined if the text has another form. */
export function parseS3Path(text: string): { bucket: string; parts: string[] } | undefined {
  const [, bucket, path = ''] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(text) ?? []
  return bucket === undefined
    ? undefined
    : { bucket, parts: path.split('/').filter((part) => part !== '') }
}

/** As `spec.source.s3` of a VecRestore names the bucket, without credentials. */
export function bucketTarget(bucket: string, call: Pick<Invocation, 'flags'>) {
  const endpoint = endpointFlag(call)
  return {
    bucket,
    region: stringFlag(call, 'region') ?? BUCKET_FLAGS.region.default,
    forcePathStyle: booleanFlag(call, 'path-style'),
    ...(endpoint !== undefined && { endpoint }),
  }
}

/** Checked before the first request, which would be repeated for a minute. */
export function endpointFlag(call: Pick<Invocation, 'flags'>): string | undefined {
  const endpoint = stringFlag(call, 'endpoint')
  if (endpoint === undefined || /^https?:\/\/[^/]/.test(endpoint)) return endpoint
  throw new CliError(
    `--endpoint ${endpoint}: must begin with https:// or http://`,
    EXIT_CODES.usage,
  )
}

/** With the credentials in the environment; the caller closes it. */
export async function openNamedBucket(
  name: string,
  call: Pick<Invocation, 'flags' | 'env' | 'log' | 'time'>,
): Promise<Bucket> {
  const { env, log, time } = call
  requireCredentials(env)
  const file = stringFlag(call, 'ca')
  const ca = file === undefined ? undefined : await readAuthority(file)
  // Only commands that use a bucket load the SDK.
  const [{ Bucket: BucketClient }, { parseCredentials: credentialsFrom }] = await Promise.all([
    import('../clients/s3/bucket.ts'),
    import('../clients/s3/credentials.ts'),
  ])
  return new BucketClient({
    target: bucketTarget(name, call),
    credentials: () =>
      credentialsFrom(ENVIRONMENT_CREDENTIALS, (key) => (key === 'ca.crt' ? ca : env[key])),
    time,
    log,
  })
}

function readAuthority(file: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    throw new CliError(`--ca ${file}: ${errorMessage(error)}`)
  })
}
