import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import {
  ANNOTATIONS,
  API_GROUP,
  HELM_CLUSTER_ROLE,
  SHARDS_CLUSTER_ROLE,
} from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import { backupRbac } from '../../hooks/backup/job.ts'
import { clusterRbac } from '../../hooks/cluster/job.ts'
import { shardsRbac } from '../../hooks/cluster/shards/job.ts'
import { JOB_VOLUMES, volumesError } from '../../hooks/job-pod.ts'
import { newJob } from '../../hooks/job.ts'
import type { JobPod } from '../../hooks/protocol.ts'
import { PLURALS } from '../../metacontroller/controllers.ts'
import { parseOptions, USAGE } from '../../metacontroller/options.ts'
import { cluster, settings } from '../builders.ts'
import { backup } from '../hooks/backup/objects.ts'

const ROOT = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')
const yaml = (path: string) => parse(text(path)) as Record<string, unknown>

const values = yaml('chart/values.yaml')
const manifest = JSON.parse(text('package.json')) as { version: string }
const plurals = RESOURCES.map(({ plural }) => plural)

t.test('the chart has the version of the operator', async (t) => {
  const { name, version, appVersion } = yaml('chart/Chart.yaml')
  t.strictSame([name, version, appVersion], ['vec-operator', manifest.version, manifest.version])
})

t.test("the specification's values have the specification's defaults", async (t) => {
  t.match(values, {
    replicaCount: 1,
    image: { repository: 'ghcr.io/vec-operator/vec-operator', tag: '', pullPolicy: 'IfNotPresent' },
    serviceAccount: { create: true, name: '' },
    resources: {
      requests: { cpu: '100m', memory: '128Mi' },
      limits: { cpu: '500m', memory: '384Mi' },
    },
    operator: { logLevel: 'INFO', logFormat: 'json' },
  })
})

t.test('what the chart sets by default is what the service does by default', async (t) => {
  const settings = parseOptions(['--insecure-hooks'], {}, manifest.version)?.settings
  t.match(values, {
    operator: { logLevel: settings?.logLevel, logFormat: settings?.logFormat },
    engineChart: settings?.chart,
    jobs: {
      maxHelm: settings?.maxHelmJobs,
      historySeconds: settings?.historySeconds,
      resources: settings?.jobResources,
    },
  })
})

t.test(
  'an installation is closed by default: hooks over TLS, no cluster for other namespaces',
  async (t) => {
    t.match(values, { hooks: { tls: { enabled: true } }, crossNamespace: 'closed' })
  },
)

t.test('the security contexts of Jobs are by default those without the values', async (t) => {
  const { jobs } = values as unknown as { jobs: { pods: Record<'helm' | 'data', JobPod> } }
  for (const [component, release] of [
    ['helm', { release: 'vec-a' }],
    ['data', {}],
  ] as const) {
    const plan = { namespace: 'ns', name: 'a', uid: 'u', run: 1, hash: 'h' }
    const options = {
      ...{ kind: 'cluster', verb: 'upgrade', plan, largeField: 'spec', serviceAccount: 'sa' },
      ...{ resources: { requests: {}, limits: {} }, credentials: {} },
      ...release,
    }
    const { template } = newJob(options, settings)['spec'] as { template: Template }
    const { podSecurityContext, securityContext } = jobs.pods[component]
    t.strictSame(template.spec.securityContext, podSecurityContext)
    t.strictSame(template.spec.containers[0]?.securityContext, securityContext)
    t.strictSame(values['podSecurityContext'], podSecurityContext)
    t.strictSame(values['securityContext'], securityContext)
  }
})

interface Template {
  spec: { securityContext: object; containers: { securityContext: object }[] }
}

t.test('every variable of the Deployment is one the service reads', async (t) => {
  const names = [...text('chart/templates/deployment.yaml').matchAll(/- name: ([A-Z][A-Z_]+)$/gm)]
  t.ok(names.length > 10)
  for (const [, name = ''] of names) t.ok(USAGE.includes(name), name)
})

t.test('extraEnv must not contain a variable that the Deployment sets', async (t) => {
  const names = [...text('chart/templates/deployment.yaml').matchAll(/- name: ([A-Z][A-Z_]+)$/gm)]
  const { items } = schema.properties?.['extraEnv'] as {
    items: { properties: { name: { not: { enum: string[] } } } }
  }
  const refused = items.properties.name.not.enum
  t.strictSame(refused, [...new Set(names.map(([, name = '']) => name))].sort())
})

t.test('the values of volumes of Jobs allow what the service allows', async (t) => {
  const { volumes, volumeMounts } = schema.definitions?.['jobPods']?.properties ?? {}
  const { name } = (volumes as { items: { properties: { name: { not: { enum: string[] } } } } })
    .items.properties
  t.strictSame(name.not.enum, JOB_VOLUMES.toSorted())
  const { mountPath } = (
    volumeMounts as {
      items: { properties: { mountPath: { pattern: string; not: { pattern: string } } } }
    }
  ).items.properties
  const isAllowed = (path: string) =>
    new RegExp(mountPath.pattern).test(path) && !new RegExp(mountPath.not.pattern).test(path)
  const folders = [
    ...['/var/run/vec', '/run/vec', '/var/run/secrets/kubernetes.io/serviceaccount'],
    ...['/run/secrets/kubernetes.io/serviceaccount', '/usr/local/bin/node', '/usr/local/bin/helm'],
    ...['/tmp', '/app', '/etc/ssl/certs', '/opt/a:b'],
  ]
  const prefixes = folders.flatMap((path) =>
    path.split('/').map((_, index, parts) => parts.slice(0, index + 1).join('/')),
  )
  const paths = new Set(
    prefixes.flatMap((path) => [path, `${path}/`, `${path}/x`, `${path}x`, `/${path}`]),
  )
  const allowed = (accept: (path: string) => boolean) => [...paths].filter(accept)
  const byService = allowed(
    (path) =>
      volumesError({ volumes: [{ name: 'a' }], volumeMounts: [{ name: 'a', mountPath: path }] }) ===
      undefined,
  )
  t.strictSame(allowed(isAllowed), byService)
  t.ok(byService.includes('/etc/ssl/certs') && byService.length < paths.size)
})

interface Schema {
  description?: string
  $ref?: string
  type?: string | string[]
  enum?: unknown[]
  allOf?: Schema[]
  properties?: Record<string, Schema>
  additionalProperties?: unknown
  definitions?: Record<string, Schema>
}

const schema = JSON.parse(text('chart/values.schema.json')) as Schema

/** Follows a reference, or the only part of an allOf. */
function resolved(part: Schema): Schema {
  const target = part.$ref ?? part.allOf?.[0]?.$ref
  if (target === undefined) return part
  return schema.definitions?.[target.replace('#/definitions/', '')] ?? {}
}

/** Paths that are in values.yaml and not in the schema, the other way round, or of another type. */
function* disagreements(value: unknown, part: Schema | undefined, path: string): Generator<string> {
  if (part === undefined) {
    yield `${path} is not in the schema`
    return
  }
  if (part.description === undefined && part !== schema) yield `${path} has no description`
  const { type, properties, additionalProperties } = resolved(part)
  if (properties === undefined) {
    const actual = Array.isArray(value)
      ? 'array'
      : Number.isInteger(value)
        ? 'integer'
        : typeof value
    if (type !== undefined && ![type].flat().includes(actual)) yield `${path} is a ${actual}`
    if (part.enum !== undefined && !part.enum.includes(value)) yield `${path} is not allowed`
    return
  }
  if (additionalProperties !== false) yield `${path} lets anything through`
  for (const [key, inner] of Object.entries(value as object)) {
    yield* disagreements(inner, properties[key], `${path}.${key}`)
  }
  for (const key of Object.keys(properties)) {
    if (key !== 'global' && !(key in (value as object))) yield `${path}.${key} has no default`
  }
}

t.test('values.schema.json describes values.yaml, all of it and nothing else', async (t) => {
  t.strictSame([...disagreements(values, schema, 'values')], [])
  t.equal([...disagreements({ ...values, unknown: 1 }, schema, 'values')].length, 1)
})

t.test('the kinds that can be served are the seven, and all of them are by default', async (t) => {
  const kinds = schema.properties?.['kinds'] as { items: { enum: string[] } }
  t.strictSame(kinds.items.enum, plurals)
  t.strictSame(PLURALS, plurals)
  t.strictSame(values['kinds'], plurals)
})

t.test('the chart carries the seven CRDs, and its rights name them', async (t) => {
  const names = plurals.map((plural) => `${plural}.${API_GROUP}`)
  const files = readdirSync(join(ROOT, 'chart/crds'))
  t.strictSame(files.sort(), plurals.map((plural) => `${plural}.yaml`).sort())
  const rbac = text('chart/templates/rbac-service.yaml')
  for (const name of names) t.match(rbac, `      - ${name}\n`)
})

t.test('the policy of Jobs names their accounts and the annotations they report in', async (t) => {
  const policy = text('chart/templates/jobs-policy.yaml')
  const [, pattern = ''] = /username\.matches\('([^']+)'\)/.exec(policy) ?? []
  const account = clusterRbac(cluster())[0].metadata.name
  const accounts = [
    account,
    shardsRbac(cluster())[0].metadata.name,
    backupRbac(backup())[0].metadata.name,
  ]
  for (const name of accounts) t.match(`system:serviceaccount:ns:${name}`, new RegExp(pattern))
  t.notMatch('system:serviceaccount:ns:cluster-admin', new RegExp(pattern))
  t.match(policy, `"['${ANNOTATIONS.progress}', '${ANNOTATIONS.lastAppliedSpec}']"`)
})

t.test('names of users are quoted: YAML reads "no" and 123 as other types', async (t) => {
  const names =
    /Release\.Name|existingSecret|secretName|metacontroller\.(namespace|rbac)|vec-operator\.(full)?name|vec-operator\.serviceAccount|^\.namespace/
  let count = 0
  for (const file of readdirSync(join(ROOT, 'chart/templates'))) {
    for (const line of text(`chart/templates/${file}`).split('\n')) {
      // The whole value: other text around it makes it a string.
      const [, action = ''] = /^ *[-a-zA-Z./]+: \{\{ ([^}]+) \}\}$/.exec(line) ?? []
      if (!names.test(action)) continue
      count += 1
      t.match(action, / \| quote$/, `${file}: ${line}`)
    }
  }
  t.ok(count > 50)
})

t.test('the ClusterRoles of Jobs have the names the operator binds', async (t) => {
  t.match(text('chart/templates/rbac-helm.yaml'), `\n  name: ${HELM_CLUSTER_ROLE}\n`)
  t.match(text('chart/templates/rbac-shards.yaml'), `\n  name: ${SHARDS_CLUSTER_ROLE}\n`)
  t.match(
    text('chart/templates/rbac-metacontroller.yaml'),
    `    resourceNames: [${HELM_CLUSTER_ROLE}, ${SHARDS_CLUSTER_ROLE}]\n    verbs: [bind]\n`,
  )
})
