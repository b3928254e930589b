/**
 * The commands of docs/quickstart.md, run by bash on the local cluster as a new user runs them on kind: without
 * the CRDs, Metacontroller and the operator. What must differ from kind is in `onThisCluster`.
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { quickstartBlocks, quickstartCommands } from '../docs/pages.ts'
import { NotSupported } from '../world/world.ts'
import type { Image } from './buildah.ts'
import type { Ground } from './ground.ts'
import { openRepositoryOn } from './chart-repository.ts'
import type { LocalCluster } from './local.ts'
import { realMetacontroller } from './metacontroller.ts'
import { run } from './process.ts'
import { buildProgramImage } from './quickstart-images.ts'
import { skippedBy } from './release.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const PAGE = 'docs/quickstart.md'
const MAX_COMMANDS = 15
const MAX_SECONDS = 15 * 60

export interface Quickstart {
  /** What the commands of the steps printed. */
  readonly steps: string
  /** What the commands below them printed. */
  readonly rest: string
  readonly seconds: number
}

export function showQuickstart(ground: Ground) {
  return async (t: Test) => {
    const run = await ground
      .runQuickstart()
      .catch(skippedBy(t, 'no Metacontroller or chart for the quickstart'))
    if (run === undefined) return
    const { steps, rest, seconds } = run
    t.comment(`backup and restore after ${Math.round(seconds)} s`)
    t.ok(quickstartCommands().length <= MAX_COMMANDS, `at most ${MAX_COMMANDS} commands`)
    t.ok(seconds < MAX_SECONDS, `${seconds} s`)
    t.match(steps, '"author":"Ada"', 'the query found the point')
    t.match(steps, /"count":2\b[^]*$/, 'both points were restored')
    t.match(rest, /all \d+ objects are complete/, 'the backup was verified')
    t.notMatch(rest, /^x /m, 'doctor found no error')
  }
}

/** What the page does on kind, and what stands for it here. */
function onThisCluster({ image, repository }: { image: string; repository: string }) {
  return new Map([
    // This is the checkout.
    [/^git clone .*$/m, ':'],
    // The cluster is up.
    [/^kind create cluster$/m, ':'],
    // No Docker and no internet: an image that the node has, and the engine's chart on this machine.
    [
      /^docs\/quickstart\/install\.sh$/m,
      `docs/quickstart/install.sh ${image} --set engineChart.repository=${repository}`,
    ],
    // The packages are installed, and other processes use them.
    [/^npm ci$/m, ':'],
    [/^kind delete cluster$/m, ':'],
    [/^docker build .*$/m, ':'],
    [/^docs\/quickstart\/install\.sh registry.*$/m, ':'],
  ])
}

export async function runQuickstart(cluster: LocalCluster, operator: Image): Promise<Quickstart> {
  const metacontroller = requireMetacontroller()
  await loadPublished(cluster, metacontroller.bin)
  const replacements = onThisCluster({
    image: operator.name,
    repository: openRepositoryOn(cluster),
  })
  let steps = quickstartBlocks('steps')
  let rest = quickstartBlocks('rest')
  for (const [pattern, replacement] of replacements) {
    if (!pattern.test(steps + rest)) throw new Error(`${PAGE} has no line ${String(pattern)}`)
    steps = steps.replace(pattern, replacement)
    rest = rest.replace(pattern, replacement)
  }
  await removeEverything(cluster)
  const started = Date.now()
  const shell = (script: string, name: string) =>
    runScript(cluster, { script, name, chart: metacontroller.chart })
  const saidBySteps = await shell(steps, 'quickstart-steps.sh')
  const seconds = (Date.now() - started) / 1000
  return { steps: saidBySteps, rest: await shell(rest, 'quickstart-rest.sh'), seconds }
}

/** A failing command ends the script; forwarded ports end with it. */
async function runScript(
  cluster: LocalCluster,
  { script, name, chart }: { script: string; name: string; chart: string },
): Promise<string> {
  const file = join(cluster.directory, name)
  const head = "set -euo pipefail\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\nset -x\n"
  writeFileSync(file, head + script)
  const programs = [cluster.tools.kubectl, cluster.tools.helm].map((path) => dirname(path))
  return run('bash', [file], {
    cwd: REPOSITORY,
    env: {
      KUBECONFIG: cluster.kubeconfig,
      METACONTROLLER_CHART: chart,
      PATH: [...programs, process.env['PATH'] ?? ''].join(':'),
    },
  })
}

/** The program and its chart; the chart is what a user installs it with. */
function requireMetacontroller(): { bin: string; chart: string } {
  const real = realMetacontroller(process.env)
  if (real === undefined) throw new NotSupported('METACONTROLLER_BIN names no Metacontroller')
  const beside = join(dirname(real.bin), 'metacontroller-helm')
  const ofSources = join(dirname(real.bin), 'src/metacontroller/deploy/helm/metacontroller')
  const chart = [process.env['METACONTROLLER_CHART'], beside, ofSources].find(
    (folder) => folder !== undefined && existsSync(join(folder, 'Chart.yaml')),
  )
  if (chart === undefined) throw new NotSupported('METACONTROLLER_CHART names no chart')
  return { bin: real.bin, chart }
}

/** The images that the node would pull. */
async function loadPublished(cluster: LocalCluster, metacontroller: string): Promise<void> {
  const store = readFileSync(join(REPOSITORY, 'docs/quickstart/s3.yaml'), 'utf8')
  const [, storeImage = ''] = /image: (\S+)/.exec(store) ?? []
  const script = readFileSync(join(REPOSITORY, 'docs/quickstart/install.sh'), 'utf8')
  const [, version = ''] = /^metacontroller_version=(\S+)$/m.exec(script) ?? []
  const images = [
    { name: storeImage, program: cluster.tools.versitygw, path: 'usr/local/bin/versitygw' },
    {
      name: `ghcr.io/metacontroller/metacontroller:v${version}`,
      program: metacontroller,
      path: 'usr/bin/metacontroller',
    },
  ]
  for (const image of images) {
    const { archive } = await buildProgramImage(image)
    await cluster.loadImage(archive)
  }
}

/** As on a new cluster: nothing of the operator and of Metacontroller, not even the CRDs. */
async function removeEverything(cluster: LocalCluster): Promise<void> {
  await cluster.stopHostProcess('metacontroller')
  const remove = ['delete', '--ignore-not-found', '--wait', '--timeout=120s']
  await cluster.kubectl([...remove, 'namespace', 'metacontroller', 'vec-system'])
  const definitions = (await cluster.kubectl(['get', 'crd', '-o', 'name'])).split('\n')
  const ours = definitions.filter((name) => /vec-operator\.dev|metacontroller/.test(name))
  if (ours.length > 0) await cluster.kubectl([...remove, ...ours])
}
