/** The health check for Argo CD in docs/gitops.md, run by Lua on the statuses that hooks write. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { LuaFactory } from 'wasmoon'
import { parse } from 'yaml'
import type { Condition } from '../../crds/schema.ts'
import { withKstatus } from '../../hooks/conditions.ts'
import { ago, NOW } from '../builders.ts'

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

/** What Argo CD makes of a resource, which it passes as the global `obj`. */
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

for (const [title, object, status, message] of [
  ['a resource without a status', { metadata: { generation: 1 } }, 'Progressing', 'waiting for'],
  [
    'a status of an earlier spec',
    { ...resource('VecCluster', [ready, applied]), metadata: { generation: 3 } },
    'Progressing',
    'waiting for',
  ],
  ['a Ready cluster', resource('VecCluster', [ready, applied]), 'Healthy', 'AllReplicasReady'],
  [
    'a cluster in a helm run',
    resource('VecCluster', [ready, condition('Applied', 'False', 'HelmRunning')]),
    'Progressing',
    'HelmRunning',
  ],
  [
    'a refused change',
    resource('VecCluster', [ready, condition('Applied', 'False', 'VersionSkipped')]),
    'Degraded',
    'VersionSkipped',
  ],
  [
    'a running backup',
    resource('VecBackup', [condition('Complete', 'False', 'Running')], { phase: 'InProgress' }),
    'Progressing',
    'Running',
  ],
  [
    'a complete backup',
    resource('VecBackup', [condition('Complete', 'True', 'Completed')], { phase: 'Completed' }),
    'Healthy',
    'Completed',
  ],
  [
    'a failed backup',
    resource('VecBackup', [condition('Complete', 'False', 'BackupFailed')], { phase: 'Failed' }),
    'Degraded',
    'BackupFailed',
  ],
  [
    'a hibernated cluster',
    resource('VecCluster', [condition('Ready', 'False', 'Hibernated'), applied], {
      phase: 'Hibernated',
    }),
    'Suspended',
    'spec.hibernate',
  ],
] as const) {
  t.test(`Argo CD calls ${title} ${status}`, async (t) => {
    const health = await healthOf(object)
    t.equal(health.status, status, health.message)
    t.match(health.message, message)
  })
}
