/**
 * What a run of the bench amounts to: targets that were met and missed, rows that could not be measured, and
 * ratios that are worse than those of an earlier run.
 */
import type { Part } from './part.ts'
import { isBetterWhenMore, signOf, type Figure } from './table.ts'

/** Figures by `<part>: <row>`. */
export type Figures = ReadonlyMap<string, Figure>

/** What was measured, and the names of what could not be. */
export interface Measured {
  figures: Map<string, Figure>
  unmeasured: string[]
}

/** Ratios to a yardstick of the same run; only these can be compared between runs. */
export interface Baseline {
  [part: string]: {
    /** Date, commit and machine. */
    measured: string
    ratios: Record<string, number>
  }
}

/** A ratio that is worse by a larger share is counted. */
const TOLERANCE = 0.1

/** A single pause of the machine, on either side, decides these; they only have targets. */
const DECIDED_BY_ONE_PAUSE = /\b(p99|slowest)\b/

/**
 * Measures one part. Variables that are not set, errors, values that are not numbers, and expected rows that are missing
 * leave rows unmeasured.
 */
export async function measurePart(
  {
    name,
    needs = [],
    expected,
    measure,
  }: Pick<Part, 'name' | 'needs'> & {
    /** Rows that must have a target. */
    expected: readonly string[]
    measure: () => Promise<Figure[]>
  },
  env: NodeJS.ProcessEnv,
): Promise<Measured & { rows: Figure[] }> {
  const unmeasured = needs
    .filter(({ variable }) => !env[variable])
    .map(({ variable, rows }) => `${name}: ${rows} (${variable} is not set)`)
  let rows: Figure[] = []
  try {
    rows = await measure()
  } catch (error) {
    unmeasured.push(
      `${name}: every row (${error instanceof Error ? error.message : String(error)})`,
    )
  }
  const figures = new Map(rows.map((figure) => [`${name}: ${figure.what}`, figure]))
  for (const [key, figure] of figures) {
    if (!isNumber(figure)) unmeasured.push(`${key} (not a number)`)
  }
  // Otherwise it is said already why rows are missing.
  if (unmeasured.length === 0) {
    const missing = expected.filter((row) => figures.get(`${name}: ${row}`)?.target === undefined)
    unmeasured.push(...missing.map((row) => `${name}: ${row} (no row with a target)`))
  }
  return { rows, figures, unmeasured }
}

function isNumber({ value, yardstick = 1 }: Figure): boolean {
  return Number.isFinite(value) && Number.isFinite(yardstick)
}

export interface Outcome {
  holds: boolean
  lines: string[]
}

/** Targets and rows; fails for a target that was missed and for a row that could not be measured. */
export function judgeTargets({ figures, unmeasured }: Measured): Outcome {
  const withTarget = [...figures].filter(([, { target }]) => target !== undefined)
  const missed = withTarget.filter(([, { met }]) => met !== true)
  const nothing = withTarget.length === 0 && unmeasured.length === 0
  return {
    holds: missed.length === 0 && unmeasured.length === 0 && !nothing,
    lines: [
      `targets: ${withTarget.length - missed.length} of ${withTarget.length} met, ${missed.length} missed, ` +
        `${unmeasured.length} groups of rows not measured`,
      ...missed.map(
        ([key, { value, unit, target = NaN }]) =>
          `  missed: ${key}: ${short(value)} ${unit}, target ${signOf(unit, target)} ${target}`,
      ),
      ...unmeasured.map((row) => `  not measured: ${row}`),
    ],
  }
}

/**
 * The ratios of these parts, with those of an earlier run. Fails when there was nothing to compare, when a
 * ratio is worse by more than a tenth, and when a ratio of the earlier run is missing.
 */
export function compareRatios(
  figures: Figures,
  parts: readonly string[],
  baseline: Baseline,
): Outcome {
  const old = new Map(
    parts.flatMap((part) =>
      Object.entries(baseline[part]?.ratios ?? {}).map(([row, ratio]) => [
        `${part}: ${row}`,
        ratio,
      ]),
    ),
  )
  const now = new Map([...figures].flatMap(([key, figure]) => ratioEntry(key, figure)))
  const compared = [...now].filter(([key]) => old.has(key))
  const worse = compared.flatMap(([key, ratio]) => {
    const figure = figures.get(key)
    const before = old.get(key)
    if (figure === undefined || before === undefined) return []
    const by = isBetterWhenMore(figure.unit) ? 1 - ratio / before : ratio / before - 1
    return by > TOLERANCE ? [{ key, before, ratio, by }] : []
  })
  const added = [...now.keys()].filter((key) => !old.has(key))
  const gone = [...old.keys()].filter((key) => !now.has(key))
  return {
    holds: compared.length > 0 && worse.length === 0 && gone.length === 0,
    lines: [
      `compared ${compared.length} ratios: ${worse.length} worse by more than a tenth, ` +
        `${added.length} new, ${gone.length} gone`,
      ...parts.flatMap((part) => {
        const { measured } = baseline[part] ?? {}
        return measured === undefined ? [] : [`  ${part}: with ${measured}`]
      }),
      ...worse.map(
        ({ key, before, ratio, by }) =>
          `  worse: ${key}: ${short(before)} -> ${short(ratio)}, by ${Math.round(100 * by)} %`,
      ),
      ...gone.map((key) => `  gone: ${key}`),
      ...(compared.length === 0 ? ['  FAILED: nothing was compared'] : []),
    ],
  }
}

/** The baseline with the ratios of these parts in place of its own. */
export function withRatios(
  baseline: Baseline,
  figures: Figures,
  parts: readonly string[],
  measured: string,
): Baseline {
  const entriesOf = (part: string) =>
    [...figures]
      .filter(([key]) => key.startsWith(`${part}: `))
      .flatMap(([key, figure]) => ratioEntry(key.slice(part.length + 2), figure))
      .map(([row, ratio]) => [row, Number(ratio.toPrecision(3))] as const)
  const added = parts
    .map((part) => [part, { measured, ratios: Object.fromEntries(entriesOf(part)) }] as const)
    .filter(([, { ratios }]) => Object.keys(ratios).length > 0)
  return { ...baseline, ...Object.fromEntries(added) }
}

function ratioEntry(key: string, { value, yardstick }: Figure): [string, number][] {
  const ratio = yardstick === undefined ? NaN : value / yardstick
  if (DECIDED_BY_ONE_PAUSE.test(key)) return []
  return Number.isFinite(ratio) && ratio > 0 ? [[key, ratio]] : []
}

function short(value: number): string {
  return value >= 100 ? String(Math.round(value)) : value.toFixed(2)
}
