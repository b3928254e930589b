/** What kube-score says about the chart as it is installed by default, and with everything switched on. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parse } from 'yaml'
import { builtTool } from '../cluster/tools.ts'
import { everythingOn } from './golden.ts'
import { CHART, runHelm } from './helm.ts'

/** Check by kind of object, with the reason why it is not passed. */
type Exceptions = Record<string, Record<string, string>>

const EXCEPTIONS = join(import.meta.dirname, '../../.ci/kube-score.yaml')
const KUBE_VERSION = 'v1.34'
/** The grade of a check that is passed. */
const PASSED = 10

interface Scored {
  type_meta: { kind: string }
  object_meta: { name: string }
  checks: { check: { id: string }; grade: number; skipped: boolean; comments: Comment[] | null }[]
}

interface Comment {
  path: string
  summary: string
}

export function findKubeScore(): string | undefined {
  return builtTool('kube-score')
}

/** A line for each check that is not passed and has no exception, and for each exception without use. */
export async function scoreProblems(helm: string, kubeScore: string): Promise<string[]> {
  const exceptions = parse(readFileSync(EXCEPTIONS, 'utf8')) as Exceptions
  const problems: string[] = []
  const used = new Set<string>()
  for (const values of [[], everythingOn()]) {
    const objects = score(kubeScore, await rendered(helm, values))
    for (const { type_meta, object_meta, checks } of objects) {
      for (const { check, grade, skipped, comments } of checks) {
        if (skipped || grade === PASSED) continue
        const { kind } = type_meta
        used.add(`${kind} ${check.id}`)
        if (exceptions[kind]?.[check.id] !== undefined) continue
        const texts = (comments ?? []).map(({ path, summary }) => `${path} ${summary}`.trim())
        problems.push(`${kind} ${object_meta.name}: ${check.id}: ${texts.join('; ')}`)
      }
    }
  }
  const declared = Object.entries(exceptions).flatMap(([kind, checks]) =>
    Object.keys(checks).map((id) => `${kind} ${id}`),
  )
  const unused = declared.filter((one) => !used.has(one))
  return [...problems, ...unused.map((one) => `exception without use: ${one}`)]
}

function rendered(helm: string, values: string[]): Promise<string> {
  const release = ['--namespace', 'vec-system', '--kube-version', `${KUBE_VERSION}.0`]
  return runHelm(helm, ['template', 'vec-operator', CHART, ...release, ...values])
}

/** It ends with 1 when a check is not passed. */
function score(kubeScore: string, input: string): Scored[] {
  const args = ['score', '--kubernetes-version', KUBE_VERSION, '--output-format', 'json', '-']
  const { stdout, stderr } = spawnSync(kubeScore, args, { input, encoding: 'utf8' })
  if (!stdout.startsWith('[')) throw new Error(`kube-score: ${stdout}${stderr}`)
  const objects = JSON.parse(stdout) as Scored[]
  if (!objects.some(({ type_meta }) => type_meta.kind === 'Deployment'))
    throw new Error('kube-score has not seen the Deployment')
  return objects
}
