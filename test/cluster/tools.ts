/**
 * The Go programs the local cluster is made of, built from the modules pinned in tools/. A build is
 * kept in the cache under the hash of what it was made from, so only the first run waits for it.
 */
import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { join } from 'node:path'

import { installPackages } from './packages.ts'
import { run } from './process.ts'
import { CACHE } from './state.ts'

export type Log = (line: string) => void

const KUBERNETES_PARTS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-scheduler',
  'kubelet',
  'kube-proxy',
  'kubectl',
] as const

interface GoProgram {
  readonly name: string
  /** Folder below tools/, if it is not the name: programs that share one share what is compiled. */
  readonly folder?: string
  readonly package: string
  readonly ldflags: string
  readonly tags?: string
  /** Names it is called by, where these pick what it does. */
  readonly links: readonly string[]
}

const version = 'k8s.io/component-base/version'
const PROGRAMS: readonly GoProgram[] = [
  {
    name: 'kubernetes',
    package: '.',
    // Without these kubectl and Helm's capability checks see version 0.0.
    ldflags: `-X ${version}.gitVersion=v1.34.4 -X ${version}.gitMajor=1 -X ${version}.gitMinor=34`,
    links: KUBERNETES_PARTS,
  },
  { name: 'helm', package: 'helm.sh/helm/v3/cmd/helm', ldflags: '', links: [] },
  { name: 'coredns', package: 'github.com/coredns/coredns', ldflags: '', links: [] },
  {
    name: 'versitygw',
    package: 'github.com/versity/versitygw/cmd/versitygw',
    ldflags: '',
    links: [],
  },
]

/** Volumes that can grow (volume-driver.ts); a cluster works without them. */
const VOLUME_DRIVER = [
  { name: 'csi-driver', package: '.', ldflags: '', links: [] },
  {
    name: 'csi-provisioner',
    folder: 'csi-sidecars',
    package: 'github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner',
    ldflags: '',
    links: [],
  },
  {
    name: 'csi-resizer',
    folder: 'csi-sidecars',
    package: 'github.com/kubernetes-csi/external-resizer/v2/cmd/csi-resizer',
    ldflags: '',
    links: [],
  },
] as const satisfies readonly GoProgram[]

/** No parts of a cluster: they check the alert rules of the chart, how other tools judge a status, and the chart. */
const CHECKERS: readonly GoProgram[] = [
  {
    name: 'promtool',
    package: 'github.com/prometheus/prometheus/cmd/promtool',
    ldflags: '',
    // Service discovery is most of the code, and rules need none.
    tags: 'remove_all_sd',
    links: [],
  },
  { name: 'kstatus', package: '.', ldflags: '', links: [] },
  {
    name: 'kube-score',
    package: 'github.com/zegl/kube-score/cmd/kube-score',
    ldflags: '',
    links: [],
  },
]

/** What a release is rehearsed with: a registry, signatures, and krew. */
const RELEASE_TOOLS = [
  {
    name: 'crane',
    folder: 'release',
    package: 'github.com/google/go-containerregistry/cmd/crane',
    ldflags: '',
    links: [],
  },
  {
    name: 'cosign',
    folder: 'release',
    package: 'github.com/sigstore/cosign/v3/cmd/cosign',
    ldflags: '',
    links: [],
  },
  { name: 'krew', package: 'sigs.k8s.io/krew/cmd/krew', ldflags: '', links: [] },
  {
    name: 'validate-krew-manifest',
    folder: 'krew',
    package: 'sigs.k8s.io/krew/cmd/validate-krew-manifest',
    ldflags: '',
    links: [],
  },
] as const satisfies readonly GoProgram[]

type Checker = 'promtool' | 'kstatus' | 'kube-score'
type ToolName = (typeof KUBERNETES_PARTS)[number] | 'helm' | 'coredns' | 'versitygw'
export type Tools = Readonly<Record<ToolName, string>>
/** Paths of the programs of the volume driver. */
export type VolumeTools = Readonly<Record<(typeof VOLUME_DRIVER)[number]['name'], string>>
export type ReleaseTools = Readonly<Record<(typeof RELEASE_TOOLS)[number]['name'], string>>

/** Installs and builds what is missing; answers where each Go program is. */
export async function prepareTools(log: Log): Promise<Tools> {
  await installPackages(log)
  const tools: Record<string, string> = {}
  for (const program of PROGRAMS) {
    const folder = await build(program, log)
    for (const name of [program.name, ...program.links]) tools[name] = join(folder, name)
  }
  return tools as Tools
}

/** Like prepareTools, for the volume driver. */
export async function prepareVolumeTools(log: Log): Promise<VolumeTools> {
  return buildAll(VOLUME_DRIVER, log)
}

/** Like prepareTools, for the rehearsal of a release. */
export async function prepareReleaseTools(log: Log): Promise<ReleaseTools> {
  return buildAll(RELEASE_TOOLS, log)
}

/** Like prepareTools: crane, which serves a registry and needs minutes less to build than all release tools. */
export async function prepareRegistry(log: Log): Promise<string> {
  const [crane] = RELEASE_TOOLS
  return join(await build(crane, log), crane.name)
}

async function buildAll<Name extends string>(
  programs: readonly (GoProgram & { readonly name: Name })[],
  log: Log,
): Promise<Record<Name, string>> {
  const tools: Partial<Record<Name, string>> = {}
  for (const program of programs) {
    tools[program.name] = join(await build(program, log), program.name)
  }
  return tools as Record<Name, string>
}

/** A program as the sources of now build it, if this machine has built it. */
export function builtTool(name: ToolName | Checker): string | undefined {
  const program = [...PROGRAMS, ...CHECKERS].find(
    ({ name: own, links }) => own === name || links.includes(name),
  )
  if (program === undefined) return undefined
  const path = join(folderOf(program), name)
  return existsSync(path) ? path : undefined
}

/** Only helm: all that an existing cluster needs. Needs Go. */
export async function prepareHelm(log: Log): Promise<string> {
  for (const program of PROGRAMS) {
    if (program.name === 'helm') return join(await build(program, log), 'helm')
  }
  throw new Error('helm is not among the programs')
}

async function build(program: GoProgram, log: Log): Promise<string> {
  const source = sourceOf(program)
  const folder = folderOf(program)
  if (existsSync(folder)) return folder

  log(`building ${program.name}: minutes on a machine that never did`)
  const started = Date.now()
  const unfinished = `${folder}.${process.pid}`
  mkdirSync(unfinished, { recursive: true })
  try {
    const output = join(unfinished, program.name)
    const ldflags = `-s -w ${program.ldflags}`.trim()
    const tags = program.tags === undefined ? [] : ['-tags', program.tags]
    const args = ['build', '-trimpath', ...tags, '-ldflags', ldflags, '-o', output]
    await run('go', [...args, program.package], { cwd: source, env: { CGO_ENABLED: '0' } })
    for (const link of program.links) symlinkSync(program.name, join(unfinished, link))
    // Another run may have been first: its build is the same.
    if (!existsSync(folder)) renameSync(unfinished, folder)
  } finally {
    rmSync(unfinished, { recursive: true, force: true })
  }
  log(`built ${program.name} in ${Math.round((Date.now() - started) / 1000)} s`)
  return folder
}

function sourceOf({ name, folder = name }: GoProgram): string {
  return join(import.meta.dirname, 'tools', folder)
}

function folderOf(program: GoProgram): string {
  return join(CACHE, 'tools', `${program.name}-${fingerprint(sourceOf(program), program)}`)
}

function fingerprint(source: string, program: GoProgram): string {
  const hash = createHash('sha256').update(JSON.stringify(program))
  const code = readdirSync(source).filter((name) => name.endsWith('.go'))
  for (const file of ['go.mod', 'go.sum', ...code.toSorted()]) {
    hash.update(readFileSync(join(source, file)))
  }
  return hash.digest('hex').slice(0, 16)
}

// Builds what is missing: `node test/cluster/tools.ts`.
if (import.meta.main) {
  const log = (line: string) => process.stdout.write(`${line}\n`)
  await prepareTools(log)
  // Clusters work without it, and report why they have none.
  await prepareVolumeTools(log).catch((error: unknown) => log(String(error)))
  for (const program of CHECKERS) await build(program, log)
}
