import fc from 'fast-check'
import { pino } from 'pino'
import t from 'tap'
import { ANNOTATIONS } from '../../crds/names.ts'
import { clusterRights } from '../../hooks/cluster/children.ts'
import { clusterRoom } from '../../hooks/cluster/index.ts'
import { buildServer } from '../../hooks/server.ts'
import {
  NOW,
  ago,
  applied,
  cluster,
  helmJob,
  progress,
  settings,
  statefulSet,
} from '../builders.ts'
import { portsOf } from './cluster/ports.ts'

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

const RUNS = Number(process.env['FUZZ_RUNS'] ?? 2000)

/** Names of the children the service said it drops. */
const dropped = new Set<string>()
const log = pino({}, { write: (line) => noteDropped(line) })

function noteDropped(line: string): void {
  const { msg, kind, name } = JSON.parse(line) as Record<string, string>
  if (msg === 'child dropped') dropped.add(`${kind}/${name}`)
}

const server = buildServer({
  rooms: [clusterRoom(portsOf().ports)],
  tokens: () => [],
  log,
  now: () => NOW,
  settings,
  metrics: { observe: () => undefined, text: async () => '', contentType: 'text/plain' },
})

/** A request with all that a cluster can have at once. */
function wellFormed(deleting: boolean): Json {
  const jobs = [
    helmJob({ run: 1, ended: ['Failed', 90_000] }),
    helmJob({ run: 2, ended: ['Complete', 90_000] }),
    helmJob({ run: 3 }),
  ]
  const report = progress({ run: 3, state: 'Started', applied: applied({ run: 2 }) })
  const children = [...clusterRights(cluster()), ...jobs]
  const named = (kind: string) =>
    Object.fromEntries(
      children
        .filter((child) => child.kind === kind)
        .map((child) => [`ns/${child.metadata.name}`, child]),
    )
  const request = {
    parent: cluster({
      annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) },
      status: { phase: 'Running', appliedRun: 2 },
      ...(deleting && { deletionTimestamp: ago(3) }),
    }),
    children: {
      'Job.batch/v1': named('Job'),
      'ServiceAccount.v1': named('ServiceAccount'),
      'Role.rbac.authorization.k8s.io/v1': named('Role'),
      'RoleBinding.rbac.authorization.k8s.io/v1': named('RoleBinding'),
    },
    related: { 'StatefulSet.apps/v1': { 'ns/vec-a': statefulSet() } },
    finalizing: deleting,
  }
  return JSON.parse(JSON.stringify(request)) as Json
}

/** Replaces or removes what a random walk through the value arrives at. */
function mangle(value: Json, walk: number[], replacement: Json | undefined): Json | undefined {
  const [step, ...rest] = walk
  if (step === undefined || typeof value !== 'object' || value === null) return replacement
  const keys = Object.keys(value)
  const key = keys[step % Math.max(keys.length, 1)]
  if (key === undefined) return replacement
  const inner = mangle((value as Record<string, Json>)[key] ?? null, rest, replacement)
  if (Array.isArray(value))
    return value.map((item, index) => (String(index) === key ? (inner ?? null) : item))
  const others = Object.fromEntries(Object.entries(value).filter(([name]) => name !== key))
  return inner === undefined ? others : { ...others, [key]: inner }
}

interface Sent {
  children?: Record<string, Record<string, { kind?: unknown; metadata?: { name?: unknown } }>>
}

function lostChildren(sent: Sent, answer: Sent & { children: Json }): string[] {
  const given = (answer.children as unknown as { kind: string; metadata: { name: string } }[]).map(
    ({ kind, metadata }) => `${kind}/${metadata.name}`,
  )
  const shown = Object.values(sent.children ?? {}).flatMap((objects) => Object.values(objects))
  return shown
    .map(({ kind, metadata }) => `${String(kind)}/${String(metadata?.name)}`)
    .filter((child) => !given.includes(child) && !dropped.has(child))
}

for (const hook of ['sync', 'finalize', 'customize']) {
  t.test(`a mangled request to ${hook} never gets a 200 that loses a child`, async (t) => {
    const counts: Record<number, number> = {}
    const walks = fc.array(fc.array(fc.nat(20), { minLength: 1, maxLength: 8 }), { maxLength: 3 })
    const sent = fc.tuple(
      walks,
      fc.array(fc.option(fc.jsonValue(), { nil: undefined }), { minLength: 3, maxLength: 3 }),
    )
    await fc.assert(
      fc.asyncProperty(sent, async ([paths, values]) => {
        const request = paths.reduce<Json>(
          (value, walk, index) => mangle(value, walk, values[index] as Json | undefined) ?? {},
          wellFormed(hook === 'finalize'),
        )
        dropped.clear()
        const response = await server.inject({
          method: 'POST',
          url: `/vecclusters/${hook}`,
          headers: { 'content-type': 'application/json' },
          payload: JSON.stringify(request),
        })
        counts[response.statusCode] = (counts[response.statusCode] ?? 0) + 1
        if (response.statusCode !== 200 || hook === 'customize') return
        const lost = lostChildren(request as Sent, response.json())
        if (lost.length > 0) throw new Error(`lost ${lost.join(', ')}`)
      }),
      { numRuns: RUNS },
    )
    // Both kinds of requests were met: those that still mean something, and those that do not.
    t.ok((counts[200] ?? 0) > 0 && (counts[400] ?? 0) > 0, JSON.stringify(counts))
  })
}

t.teardown(() => server.close())
