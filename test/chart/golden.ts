/**
 * What our templates render with everything switched on, kept next to this file so that a change of it
 * is reviewed with the change. `node test/chart/golden.ts --record` writes it again; HELM names the program.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import type { ApiObject } from '../world/client.ts'
import { PULL_SECRET } from '../world/pull-secret.ts'
import { CHART, findHelm, NO_HELM, runHelm } from './helm.ts'

const FOLDER = join(import.meta.dirname, 'golden')

/** Compared whole; the rest is generated, or its content is judged by a separate test. */
const TEMPLATES = [
  'deployment',
  'service',
  'serviceaccount',
  'networkpolicy',
  'poddisruptionbudget',
  'monitoring',
  'rbac-users',
  'uninstall-check',
  'install-check',
] as const

/** What the embedded world takes its rights from (test/world/chart-roles.ts). */
const ROLE_TEMPLATES = ['rbac-service', 'rbac-helm', 'rbac-shards', 'rbac-metacontroller']

/** Installations for all namespaces, and for these alone. */
export const ROLE_RECORDINGS = {
  roles: [],
  'roles-of-namespaces': ['books', 'shop'],
} as const satisfies Record<string, readonly string[]>

export type RoleRecording = keyof typeof ROLE_RECORDINGS

const POD = {
  nodeSelector: { pool: 'system' },
  tolerations: [{ key: 'system', operator: 'Exists' }],
  affinity: { nodeAffinity: {} },
  priorityClassName: 'system-cluster-critical',
}

const VALUES = {
  nameOverride: 'vectors',
  commonLabels: { team: 'platform' },
  serviceAccount: { annotations: { 'example.dev/role': 'operator' } },
  podLabels: { tier: 'control' },
  podAnnotations: { 'example.dev/scrape': 'yes' },
  ...POD,
  topologySpreadConstraints: [
    { maxSkew: 1, topologyKey: 'kubernetes.io/hostname', whenUnsatisfiable: 'ScheduleAnyway' },
  ],
  extraEnv: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }],
  jobs: {
    pods: {
      helm: {
        ...POD,
        labels: { tier: 'jobs' },
        annotations: { 'example.dev/scrape': 'no' },
        env: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }],
      },
    },
  },
  imagePullSecrets: [{ name: 'registry' }],
  operator: { namespaces: ['shop'] },
  hooks: { token: { existingSecret: 'token' }, tls: { secretName: 'certificate' } },
  networkPolicy: {
    enabled: true,
    ingressFrom: [{ namespaceSelector: { matchLabels: { team: 'monitoring' } } }],
    egress: [{ ports: [{ port: 53, protocol: 'UDP' }, { port: 443 }, { port: 6333 }] }],
  },
  podDisruptionBudget: { enabled: true },
  metrics: {
    serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
    prometheusRule: { enabled: true },
    dashboard: { enabled: true },
  },
}

/** The objects that helm renders of the templates with Roles, as YAML. */
export function recordedRoles(recording: RoleRecording): string {
  return readFileSync(fileOf(recording), 'utf8')
}

/** What helm renders for `helm test` of a release in vec-system that watches the namespace shop. */
export function recordedInstallCheck(): ApiObject[] {
  return parseAllDocuments(readFileSync(fileOf('install-check'), 'utf8'))
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object): object is ApiObject => object !== null)
}

/** Recordings of Roles that were made from other templates than those of today. */
export function outdatedRoles(): string[] {
  return recordings().filter((name) => !recordedRoles(name).startsWith(roleHeader()))
}

function recordings(): RoleRecording[] {
  return Object.keys(ROLE_RECORDINGS) as RoleRecording[]
}

/** Without helm, too, a recording of other templates is noticed. */
function roleHeader(): string {
  const hash = createHash('sha256')
  for (const name of ROLE_TEMPLATES) hash.update(readFileSync(templateOf(name)))
  return `# Rendered from templates with the digest ${hash.digest('hex').slice(0, 16)}.\n`
}

function templateOf(name: string): string {
  return join(CHART, 'templates', `${name}.yaml`)
}

async function renderedRoles(helm: string, recording: RoleRecording): Promise<string> {
  const text = await runHelm(helm, [
    ...['template', 'vec-operator', CHART, '--namespace', 'vec-operator'],
    ...['--kube-version', 'v1.34.0', '--set', 'metacontroller.rbac.create=true'],
    ...['--set-json', `operator.namespaces=${JSON.stringify(ROLE_RECORDINGS[recording])}`],
    ...['--set', 'hooks.token.existingSecret=hook-token'],
    ...['--set', `imagePullSecrets[0].name=${PULL_SECRET}`],
    ...ROLE_TEMPLATES.flatMap((name) => ['--show-only', `templates/${name}.yaml`]),
  ])
  return roleHeader() + text
}

/** Names of the templates that render something else than was recorded. */
export async function goldenDifferences(helm: string): Promise<string[]> {
  const differing: string[] = []
  for (const template of TEMPLATES) {
    if ((await rendered(helm, template)) !== readFileSync(fileOf(template), 'utf8')) {
      differing.push(`${template}: node test/chart/golden.ts --record shows the difference`)
    }
  }
  for (const recording of recordings()) {
    if ((await renderedRoles(helm, recording)) !== recordedRoles(recording)) {
      differing.push(`${recording}: node test/chart/golden.ts --record shows the difference`)
    }
  }
  return differing
}

/** Arguments of helm that switch everything on. */
export function everythingOn(): string[] {
  return Object.entries(VALUES).flatMap(([name, value]) => [
    '--set-json',
    `${name}=${JSON.stringify(value)}`,
  ])
}

async function rendered(helm: string, template: string): Promise<string> {
  const where = ['--namespace', 'vec-system', '--kube-version', 'v1.26.0']
  const only = ['--show-only', `templates/${template}.yaml`]
  const text = await runHelm(helm, [
    'template',
    'vec-operator',
    CHART,
    ...where,
    ...only,
    ...everythingOn(),
  ])
  // The token is random, and its fingerprint with it. Files of the chart are tested as they are.
  return text
    .replace(/(hook-token: )"[0-9a-f]{12}"/g, '$1"<fingerprint>"')
    .replace(/(\n {2}groups:\n)(?: {2}.*\n|\n)+/g, '$1    <files/alerts.yaml>\n')
    .replace(/(vec-operator\.json: \|\n)(?: {4}.*\n|\n)+/g, '$1    <files/dashboard.json>\n')
    .replace(/(engine\.json: \|\n)(?: {4}.*\n|\n)+/g, '$1    <files/engine-dashboard.json>\n')
}

function fileOf(template: string): string {
  return join(FOLDER, `${template}.yaml`)
}

if (import.meta.main && process.argv.includes('--record')) {
  const helm = findHelm()
  if (helm === undefined) throw new Error(NO_HELM)
  for (const template of TEMPLATES) writeFileSync(fileOf(template), await rendered(helm, template))
  for (const recording of recordings()) {
    writeFileSync(fileOf(recording), await renderedRoles(helm, recording))
  }
}
