/**
 * What the pods of Jobs have apart from their plan: security contexts, the volumes of credentials, and
 * what an installation may not add: volumes of these names or paths, and variables with credentials.
 */
import { posix } from 'node:path'
import { BUCKET_CA, type CaRef } from '../crds/certificates.ts'
import {
  CREDENTIALS_FOLDER,
  isDnsLabel,
  pullSecretCredential,
  secretCopyName,
} from '../crds/contract/names.ts'
import type { JobPod } from './protocol.ts'

const USER_ID = 1000

/** What the Pod Security Standard `restricted` requires; also the defaults of the chart. */
export const POD_SECURITY_CONTEXT = {
  runAsNonRoot: true,
  runAsUser: USER_ID,
  runAsGroup: USER_ID,
  fsGroup: USER_ID,
  seccompProfile: { type: 'RuntimeDefault' },
}
export const CONTAINER_SECURITY_CONTEXT = {
  allowPrivilegeEscalation: false,
  readOnlyRootFilesystem: true,
  capabilities: { drop: ['ALL'] },
}

/** The pods' own volumes. All but the first are credentials, each in a folder of its name. */
export const JOB_VOLUMES = [
  ...(['tmp', 'bucket', 'bucket-ca', 'engine', 'tls'] as const),
  ...(['source-engine', 'source-tls', 'chart-registry', 'chart-credentials'] as const),
] as const
export type JobVolume = (typeof JOB_VOLUMES)[number]

export const SCRATCH = 'tmp' satisfies JobVolume
export const REGISTRY = 'chart-registry' satisfies JobVolume
export const REGISTRY_FILE = 'config.json'
export const CHART_CREDENTIALS = 'chart-credentials' satisfies JobVolume

export const SCRATCH_FOLDER = '/tmp'
/** Kubernetes mounts the token here, unless the container mounts something else. */
const TOKEN_FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
/** The program and its commands, as the Dockerfile has them. */
const PROGRAM = ['/app', '/usr/local/bin/node', '/usr/local/bin/helm']
const OWN_PATHS = [SCRATCH_FOLDER, CREDENTIALS_FOLDER, TOKEN_FOLDER, ...PROGRAM]

/** A copy that the service writes once the Job exists: its pods wait for it. */
export function registryVolume(job: string, pullSecret: string) {
  const items = [{ key: '.dockerconfigjson', path: REGISTRY_FILE }]
  const secretName = secretCopyName(job, pullSecretCredential(pullSecret))
  return { name: REGISTRY, secret: { secretName, items } }
}

/** A copy as well. A missing key does not keep the pod from starting: the Job reports it. */
export function chartCredentialsVolume(job: string, secret: string) {
  const secretName = secretCopyName(job, pullSecretCredential(secret))
  return { name: CHART_CREDENTIALS, secret: { secretName } }
}

/** Optional, like the credentials. */
export function caVolume({ kind, name, key }: CaRef) {
  const source = { items: [{ key, path: key }], optional: true }
  return kind === 'Secret'
    ? { name: BUCKET_CA, secret: { secretName: name, ...source } }
    : { name: BUCKET_CA, configMap: { name, ...source } }
}

/** Credentials that the chart gives to all Jobs: the SDK would prefer them to the identity. */
export const CREDENTIAL_VARIABLES = new Set([
  ...['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'],
  ...['AWS_PROFILE', 'AWS_CONFIG_FILE', 'AWS_SHARED_CREDENTIALS_FILE'],
])

/**
 * Why these volumes cannot be added to the pods of Jobs, beginning with the path of the field; undefined if
 * they can. Kubernetes would reject each of the Jobs, or the Job would not find its own files.
 */
export function volumesError({ volumes = [], volumeMounts = [] }: JobPod): string | undefined {
  const names = volumes.map(({ name }) => name)
  for (const [index, name] of names.entries()) {
    const error = nameError(name, names.slice(0, index))
    if (error !== undefined) return `.volumes[${index}].name: "${name}" ${error}`
  }
  const paths = volumeMounts.map(({ mountPath }) => mountPath)
  for (const [index, { name, mountPath }] of volumeMounts.entries()) {
    const field = `.volumeMounts[${index}]`
    if (!names.includes(name)) return `${field}.name: no volume of volumes has the name "${name}"`
    const error = pathError(mountPath, paths.slice(0, index))
    if (error !== undefined) return `${field}.mountPath: "${mountPath}" ${error}`
  }
  return undefined
}

function nameError(name: string, former: string[]): string | undefined {
  if (!isDnsLabel(name)) {
    return 'must have at most 63 lower case letters, digits and "-", with a letter or digit at both ends'
  }
  if ((JOB_VOLUMES as readonly string[]).includes(name)) {
    return 'is a volume that the Jobs have already: choose another name'
  }
  return former.includes(name) ? 'is the name of another of these volumes' : undefined
}

function pathError(path: string, former: string[]): string | undefined {
  if (!path.startsWith('/') || path.includes(':')) return 'must be an absolute path without ":"'
  const own = OWN_PATHS.find((candidate) => overlap(path, candidate))
  if (own !== undefined) return `must not hide, or be in, ${own}, which the Jobs use`
  return former.some((other) => resolved(other) === resolved(path))
    ? 'is the path of another of these mounts'
    : undefined
}

/** Whether one path is the other or below it, with or without the link `/var/run`. */
function overlap(one: string, other: string): boolean {
  const [first, second] = [one, other].map((path) => [normalized(path), resolved(path)])
  return (first ?? []).some((a) => (second ?? []).some((b) => isIn(a, b) || isIn(b, a)))
}

function isIn(path: string, folder: string): boolean {
  return `${path}/`.startsWith(folder === '/' ? '/' : `${folder}/`)
}

/** In the image, `/var/run` is a link to `/run`. */
function resolved(path: string): string {
  const normal = normalized(path)
  return isIn(normal, '/var/run') ? normal.slice('/var'.length) : normal
}

function normalized(path: string): string {
  const normal = posix.normalize(path)
  return normal.endsWith('/') && normal !== '/' ? normal.slice(0, -1) : normal
}
