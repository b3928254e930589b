/**
 * What our templates render with everything switched on, kept next to this file so that a change of it
 * is reviewed with the change. `node test/chart/golden.ts --record` writes it again; HELM names the program.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
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
] as const

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
  jobs: { pods: { helm: { ...POD, env: [{ name: 'HTTPS_PROXY', value: 'http://proxy:3128' }] } } },
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

/** Names of the templates that render something else than was recorded. */
export async function goldenDifferences(helm: string): Promise<string[]> {
  const differing: string[] = []
  for (const template of TEMPLATES) {
    if ((await rendered(helm, template)) !== readFileSync(fileOf(template), 'utf8')) {
      differing.push(`${template}: node test/chart/golden.ts --record shows the difference`)
    }
  }
  return differing
}

async function rendered(helm: string, template: string): Promise<string> {
  const values = Object.entries(VALUES).flatMap(([name, value]) => [
    '--set-json',
    `${name}=${JSON.stringify(value)}`,
  ])
  const where = ['--namespace', 'vec-system', '--kube-version', 'v1.26.0']
  const only = ['--show-only', `templates/${template}.yaml`]
  const text = await runHelm(helm, [
    'template',
    'vec-operator',
    CHART,
    ...where,
    ...only,
    ...values,
  ])
  // The token is random, and its fingerprint with it. Files of the chart are tested as they are.
  return text
    .replace(/(hook-token: )"[0-9a-f]{12}"/g, '$1"<fingerprint>"')
    .replace(/(\n {2}groups:\n)(?: {2}.*\n|\n)+/g, '$1    <files/alerts.yaml>\n')
    .replace(/(vec-operator\.json: \|\n)(?: {4}.*\n|\n)+/g, '$1    <files/dashboard.json>\n')
}

function fileOf(template: string): string {
  return join(FOLDER, `${template}.yaml`)
}

if (import.meta.main && process.argv.includes('--record')) {
  const helm = findHelm()
  if (helm === undefined) throw new Error(NO_HELM)
  for (const template of TEMPLATES) writeFileSync(fileOf(template), await rendered(helm, template))
}
