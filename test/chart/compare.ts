/**
 * Holds our double of the engine's chart to the real one: every case of the mapping is rendered by
 * both with the real helm, or compared with what the real one rendered when it was recorded.
 * `node test/chart/compare.ts [--record]` with HELM and ENGINE_CHART in the environment.
 */
import { execFile } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { isDeepStrictEqual, promisify } from 'node:util'
import { parse } from 'yaml'
import { chartValues } from '../../hooks/cluster/values.ts'
import { cluster } from '../builders.ts'
import { CASES, type Case } from './cases.ts'
import { checksumsOf, objectsOf, type Rendering } from './objects.ts'

export const DOUBLE = join(import.meta.dirname, '../doubles/chart')
const RECORDED = join(import.meta.dirname, 'recorded')

/** What a chart renders for one case. */
export interface Rendered {
  objects: Rendering
  /** Checksums that differ from those of the defaults: what rolls the pods. */
  rolls: string[]
}

export type Renderings = Record<string, Rendered>

export interface Comparison {
  /** Path of the helm program. */
  helm: string
  /** Folder of the real chart; without it, what was recorded of it. */
  engineChart?: string | undefined
}

/** A line for each case in which the double renders something else; none when it is honest. */
export async function chartDifferences({ helm, engineChart }: Comparison): Promise<string[]> {
  const double = await renderCases(helm, DOUBLE)
  const real = engineChart === undefined ? recordedCases() : await renderCases(helm, engineChart)
  return CASES.flatMap(({ name }) => differences(name, real[name], double[name]))
}

/** Renders every case with a chart. */
export async function renderCases(helm: string, chart: string): Promise<Renderings> {
  const renderings: Renderings = {}
  let defaults: Record<string, string> = {}
  for (const known of CASES) {
    const yaml = await helmTemplate(helm, chart, valuesFor(known))
    const checksums = checksumsOf(yaml)
    if (known.name === 'defaults') defaults = checksums
    const rolls = Object.keys(checksums).filter((key) => checksums[key] !== defaults[key])
    renderings[known.name] = { objects: objectsOf(yaml), rolls: rolls.sort() }
  }
  return renderings
}

/** What the real chart of the double's version rendered. */
export function recordedCases(): Renderings {
  return JSON.parse(readFileSync(fixture(DOUBLE), 'utf8')) as Renderings
}

/** Values of one case, as the operator hands them to helm. */
export function valuesFor({
  spec,
  annotations,
  hasAuthority = false,
  defaultAffinity = false,
}: Case): object {
  const options = { hasCaCertificate: hasAuthority, defaultAffinity }
  return chartValues(cluster({ name: 'a', spec, ...(annotations && { annotations }) }), options)
}

/** What helm renders of a chart as the release `vec-a`. */
export async function helmTemplate(helm: string, chart: string, values: object): Promise<string> {
  const args = ['template', 'vec-a', chart, '--namespace', 'ns', '--values', '-']
  const run = promisify(execFile)(helm, args, { maxBuffer: 16 * 1024 * 1024 })
  run.child.stdin?.end(JSON.stringify(values))
  return (await run).stdout
}

function differences(
  name: string,
  real: Rendered | undefined,
  double: Rendered | undefined,
): string[] {
  if (real === undefined || double === undefined) return [`${name}: not rendered by both`]
  const paths = [...pathsOf(real, double, '')]
  return paths.map((path) => `${name}: ${path}`)
}

/** Where two values differ, with both. */
function* pathsOf(real: unknown, double: unknown, path: string): Generator<string> {
  if (isDeepStrictEqual(real, double)) return
  if (!isMap(real) || !isMap(double)) {
    yield `${path}: ${JSON.stringify(real)}, the double has ${JSON.stringify(double)}`
    return
  }
  for (const key of new Set([...Object.keys(real), ...Object.keys(double)])) {
    yield* pathsOf(real[key], double[key], `${path}.${key}`)
  }
}

function isMap(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}

function fixture(chart: string): string {
  const { version } = parse(readFileSync(join(chart, 'Chart.yaml'), 'utf8')) as { version: string }
  return join(RECORDED, `${version}.json`)
}

/** JSON with a line for each case, so that a new recording shows which cases changed. */
function linePerCase(renderings: Renderings): string {
  const lines = Object.entries(renderings).map(([name, rendered]) => {
    return `${JSON.stringify(name)}: ${JSON.stringify(rendered)}`
  })
  return `{\n${lines.join(',\n')}\n}\n`
}

async function main(): Promise<void> {
  const { HELM: helm = 'helm', ENGINE_CHART: engineChart } = process.env
  if (process.argv.includes('--record')) {
    if (engineChart === undefined || !existsSync(engineChart)) {
      throw new Error('ENGINE_CHART names no folder of a chart')
    }
    const renderings = await renderCases(helm, engineChart)
    writeFileSync(fixture(engineChart), linePerCase(renderings))
  }
  const found = await chartDifferences({ helm, engineChart })
  process.stdout.write(found.map((line) => `${line}\n`).join(''))
  process.stdout.write(`${CASES.length} cases, ${found.length} differences\n`)
  process.exitCode = found.length === 0 ? 0 : 1
}

if (import.meta.main) await main()
