/**
 * The real parts that a run can use instead of its stand-ins: the engine, its chart, Metacontroller and an
 * S3 server. A variable of the environment names each of them; where it does not, the folder of parts that
 * were built on this machine before is searched, `~/.cache/vec-operator` (or `$XDG_CACHE_HOME/vec-operator`).
 * An empty variable asks for the stand-in: `ENGINE_BIN= npm run test:cluster`.
 *
 * `node test/real-parts.ts` prints which parts there are, in one line; with `--export`, what a shell evaluates
 * to hand them to its children.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { basename, dirname, join } from 'node:path'

/** The version of the engine and of its chart that every suite is known to pass with. */
export const ENGINE_VERSION = '1.18.3'
const OLDER_VERSION = '1.18.2'

/** Each variable that names a part, and where the part is below the cache folder. */
const PARTS = {
  ENGINE_BIN: `parts/engine-${ENGINE_VERSION}/qdrant`,
  ENGINE_CHART: `parts/chart-${ENGINE_VERSION}`,
  METACONTROLLER_BIN: 'parts/metacontroller',
  S3_BIN: 'tools/versitygw-*/versitygw',
} as const

export type PartVariable = keyof typeof PARTS

/** Absolute paths by variable; a part that this machine does not have is missing. */
export type RealParts = Readonly<Partial<Record<PartVariable, string>>>

type Environment = Readonly<Record<string, string | undefined>>

/** Where parts and tools that were built on this machine are. */
export function cacheFolder(env: Environment): string {
  return join(env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'vec-operator')
}

export function findRealParts(env: Environment): RealParts {
  const found: Partial<Record<PartVariable, string>> = {}
  for (const [variable, pattern] of Object.entries(PARTS) as [PartVariable, string][]) {
    const path = env[variable] ?? globSync(join(cacheFolder(env), pattern)).toSorted()[0]
    if (path !== undefined && path !== '') found[variable] = path
  }
  return found
}

/**
 * The versions of the engine that can be installed on the cluster: an upgrade goes from the first one to the last
 * one. ENGINE_OLDER and ENGINE_NEWER name others, ENGINE_BETWEEN the ones between, with commas.
 */
export function installableVersions({
  ENGINE_OLDER,
  ENGINE_BETWEEN,
  ENGINE_NEWER,
}: Environment): readonly string[] {
  const between = ENGINE_BETWEEN ? ENGINE_BETWEEN.split(',') : []
  return [ENGINE_OLDER || OLDER_VERSION, ...between, ENGINE_NEWER || ENGINE_VERSION]
}

/** The binary and the chart of another version beside those of the environment, or else these. */
export function enginePartsOf(
  version: string,
  { ENGINE_BIN, ENGINE_CHART }: Environment,
): { engineBin?: string; chart?: string } {
  const beside = (folder: string, path: string) => join(dirname(folder), path)
  const own = (path: string, present: string) => (existsSync(path) ? path : present)
  return {
    ...(ENGINE_BIN !== undefined && {
      engineBin: own(beside(dirname(ENGINE_BIN), `engine-${version}/qdrant`), ENGINE_BIN),
    }),
    ...(ENGINE_CHART !== undefined && {
      chart: own(beside(ENGINE_CHART, `chart-${version}`), ENGINE_CHART),
    }),
  }
}

/**
 * Sets the variables of what was found, for code that reads them, and removes the empty ones. Returns what was
 * found.
 */
export function useRealParts(env: NodeJS.ProcessEnv): RealParts {
  const parts = findRealParts(env)
  for (const variable of Object.keys(PARTS)) {
    if (env[variable] === '') Reflect.deleteProperty(env, variable)
  }
  Object.assign(env, parts)
  return parts
}

/**
 * For example `real parts: engine 1.18.3, chart 1.18.3, metacontroller v4.17.2, s3 versitygw`. A binary or a chart
 * that passes for another version too says so: `engine 1.18.3 (also for 1.18.2)`.
 */
export function describeRealParts(parts: RealParts, env: Environment = process.env): string {
  const { ENGINE_BIN, ENGINE_CHART, METACONTROLLER_BIN, S3_BIN } = parts
  const others = installableVersions(env).map((version) => ({
    version,
    ...enginePartsOf(version, parts),
  }))
  const named = (version: string, isSame: (other: (typeof others)[number]) => boolean) => {
    const also = others.filter((other) => isSame(other) && other.version !== version)
    const names = also.map((other) => other.version)
    return names.length === 0 ? version : `${version} (also for ${names.join(' and ')})`
  }
  const engine = () =>
    named(engineVersion(ENGINE_BIN ?? '') ?? UNKNOWN, (other) => other.engineBin === ENGINE_BIN)
  const chart = () =>
    named(chartVersion(ENGINE_CHART ?? ''), (other) => other.chart === ENGINE_CHART)
  const described = [
    `engine ${ENGINE_BIN === undefined ? STAND_IN : engine()}`,
    `chart ${ENGINE_CHART === undefined ? STAND_IN : chart()}`,
    `metacontroller ${METACONTROLLER_BIN === undefined ? STAND_IN : metacontrollerVersion(METACONTROLLER_BIN)}`,
    `s3 ${S3_BIN === undefined ? STAND_IN : basename(S3_BIN)}`,
  ]
  return `real parts: ${described.join(', ')}`
}

const STAND_IN = 'a stand-in'
const UNKNOWN = 'of unknown version'

/** As the engine itself reports it: `qdrant 1.18.3`; undefined for another program. */
export function engineVersion(bin: string): string | undefined {
  return /^qdrant (\S+)/.exec(outputOf(bin, ['--version']))?.[1]
}

function chartVersion(folder: string): string {
  const chart = readFileSync(join(folder, 'Chart.yaml'), 'utf8')
  return /^version: (\S+)/m.exec(chart)?.[1] ?? UNKNOWN
}

/** The program cannot say it; the sources it was built from are beside it. */
export function metacontrollerVersion(bin: string): string {
  const sources = join(dirname(bin), 'src/metacontroller')
  return outputOf('git', ['-C', sources, 'describe', '--tags']).trim() || UNKNOWN
}

/** What a program prints; empty if it fails or does not exist. */
function outputOf(command: string, args: string[]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
  } catch {
    return ''
  }
}

if (import.meta.main) {
  const parts = findRealParts(process.env)
  const quoted = (path: string) => `'${path.replaceAll("'", String.raw`'\''`)}'`
  const lines = process.argv.includes('--export')
    ? Object.entries(parts).map(([variable, path]) => `export ${variable}=${quoted(path)}`)
    : [describeRealParts(parts)]
  for (const line of lines) process.stdout.write(`${line}\n`)
}
