/**
 * How Argo CD and Flux judge the statuses that hooks write: the health check in docs/gitops.md, run by
 * Lua, and kstatus, the library with which Flux waits.
 */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { LuaFactory } from 'wasmoon'
import { parse } from 'yaml'
import { API_VERSION } from '../../crds/contract/names.ts'
import { openApiSchema, RESOURCES, type Resource } from '../../crds/crd.ts'
import type { Condition } from '../../crds/schema.ts'
import { withKstatus } from '../../hooks/conditions.ts'
import { ago, NOW } from '../builders.ts'
import { builtTool } from '../cluster/tools.ts'

const page = readFileSync(join(import.meta.dirname, '../../docs/gitops.md'), 'utf8')
const [, block = ''] = /```yaml\n(data:[\s\S]*?)```/.exec(page) ?? []
const { data } = parse(block) as { data: { 'resource.customizations': string } }
const customizations = parse(data['resource.customizations']) as Record<string, unknown>
const script = (customizations['vec-operator.dev/*'] as { 'health.lua': string })['health.lua']

/** A value in Lua's own syntax. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `{${value.map(literal).join(', ')}}`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).map(([key, inner]) => `["${key}"] = ${literal(inner)}`)
  return `{${entries.join(', ')}}`
}

/** How Argo CD judges a resource, which it passes as the global `obj`. */
async function healthOf(object: object): Promise<{ status: string; message: string }> {
  const lua = await new LuaFactory().createEngine()
  try {
    const call = `obj = ${literal(object)}
local function check()
${script}
end
local health = check()
return health.status .. "\\n" .. health.message`
    const [status = '', message = ''] = ((await lua.doString(call)) as string).split('\n')
    return { status, message }
  } finally {
    lua.global.close()
  }
}

function condition(type: string, status: Condition['status'], reason: string): Condition {
  const message = `message of ${reason}`
  return { type, status, reason, message, lastTransitionTime: ago(60), observedGeneration: 2 }
}

/** A resource of generation 2 with the conditions that the operator adds for tools. */
function resource(kind: string, conditions: Condition[], fields: object = {}) {
  const metadata = { name: 'a', generation: 2 }
  const status = withKstatus(
    { kind, metadata, status: { conditions: [] } },
    { ...fields, conditions },
    NOW,
  )
  return { kind, metadata, status: { observedGeneration: 2, ...status } }
}

const ready = condition('Ready', 'True', 'AllReplicasReady')
const applied = condition('Applied', 'True', 'UpToDate')

/** As the API server stores it before the operator has seen the resource. */
function statusOfNew(resource: Resource): unknown {
  return openApiSchema(resource).properties.status.default
}

const kstatus = builtTool('kstatus') ?? ''
const skip = kstatus === '' && 'kstatus is not built: node test/cluster/tools.ts'

/** What kstatus computes of an object. */
function computed(object: object): { status: string; message: string } {
  const input = JSON.stringify({ apiVersion: API_VERSION, kind: 'VecCluster', ...object })
  const { stdout, stderr, status } = spawnSync(kstatus, { input, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return JSON.parse(stdout) as { status: string; message: string }
}

for (const [title, object, status, ofKstatus, message] of [
  ...RESOURCES.map(
    (kind) =>
      [
        `a new ${kind.kind}`,
        { kind: kind.kind, metadata: { generation: 1 }, status: statusOfNew(kind) },
        'Progressing',
        'InProgress',
        'waiting for',
      ] as const,
  ),
  [
    'a status of an earlier spec',
    { ...resource('VecCluster', [ready, applied]), metadata: { generation: 3 } },
    'Progressing',
    'InProgress',
    'waiting for',
  ],
  [
    'a Ready cluster',
    resource('VecCluster', [ready, applied]),
    'Healthy',
    'Current',
    'AllReplicasReady',
  ],
  [
    'a cluster in a helm run',
    resource('VecCluster', [ready, condition('Applied', 'False', 'HelmRunning')]),
    'Progressing',
    'InProgress',
    'HelmRunning',
  ],
  [
    'a refused change',
    resource('VecCluster', [ready, condition('Applied', 'False', 'VersionSkipped')]),
    'Degraded',
    'Failed',
    'VersionSkipped',
  ],
  [
    'a running backup',
    resource('VecBackup', [condition('Complete', 'False', 'Running')], { phase: 'InProgress' }),
    'Progressing',
    'InProgress',
    'Running',
  ],
  [
    'a complete backup',
    resource('VecBackup', [condition('Complete', 'True', 'Completed')], { phase: 'Completed' }),
    'Healthy',
    'Current',
    'Completed',
  ],
  [
    'a failed backup',
    resource('VecBackup', [condition('Complete', 'False', 'BackupFailed')], { phase: 'Failed' }),
    'Degraded',
    'Failed',
    'BackupFailed',
  ],
  [
    'a hibernated cluster',
    resource('VecCluster', [condition('Ready', 'False', 'Hibernated'), applied], {
      phase: 'Hibernated',
    }),
    'Suspended',
    // kstatus has no word for it, and such a cluster is not Ready.
    'InProgress',
    'spec.hibernate',
  ],
] as const) {
  t.test(`Argo CD calls ${title} ${status}`, async (t) => {
    const health = await healthOf(object)
    t.equal(health.status, status, health.message)
    t.match(health.message, message)
  })

  t.test(`kstatus calls ${title} ${ofKstatus}`, { skip }, async (t) => {
    const { status, message: said } = computed(object)
    t.equal(status, ofKstatus, said)
  })
}
