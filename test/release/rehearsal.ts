/**
 * `npm run test:release`: what a tag does, on this machine: the files of a release, and the image and the chart in
 * a registry of its own, signed with a key of its own. What only GitHub can do is left out: the identity of the
 * workflow in the certificate, programs for macOS, and programs that run on Windows and arm64. Needs root, and Go.
 */
import {
  copyFileSync,
  globSync,
  mkdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { basename, join } from 'node:path'
import t, { type Test } from 'tap'
import { parse } from 'yaml'
import { API_VERSION } from '../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import { buildOperatorImage } from '../cluster/images.ts'
import { freePort, run, startProcess, stopProcess, succeeds, waitFor } from '../cluster/process.ts'
import { prepareReleaseTools, prepareTools } from '../cluster/tools.ts'
import { openApi } from '../jobs/job-fixture.ts'
import { writeKubeconfig } from '../jobs/kubectl/cli-user.ts'
import { recordRun } from '../proof/record.ts'

const ROOT = join(import.meta.dirname, '../..')
const { version } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
  version: string
}
const HERE = process.arch === 'arm64' ? 'linux-arm64' : 'linux-amd64'
const archiveOf = (platform: string) => `vec-operator-${version}-${platform}.tar.gz`
/** Left in the program by Node: it has found that a script was put into it. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2:1'

recordRun('release')
t.setTimeout(0)
const log = (line: string) => t.comment(line)
const { helm } = await prepareTools(log)
const { crane, cosign, krew, ...tools } = await prepareReleaseTools(log)
const folder = t.testdir({ bin: {}, files: {}, keys: {} })
const files = join(folder, 'files')
symlinkSync(helm, join(folder, 'bin/helm'))
const PATH = [join(folder, 'bin'), join(ROOT, 'node_modules/.bin'), process.env['PATH']].join(':')
const release = async (...args: string[]) =>
  run('node', [join(ROOT, '.ci/release.js'), ...args, '--out', files], {
    cwd: folder,
    env: { PATH },
  })
const unpacked = async (name: string) => {
  const into = join(folder, basename(name, '.tar.gz'))
  mkdirSync(into)
  await run('tar', ['-xzf', join(files, name), '-C', into])
  return into
}

await t.test('chart, CRDs and CLI become files', async () => {
  for (const command of ['chart', 'crds', 'cli']) await release(command)
})

await t.test('the CLI is one file for each platform of which npm has Node', async (t) => {
  for (const platform of ['linux-amd64', 'linux-arm64', 'windows-amd64']) {
    await release('binary', '--platform', platform)
    const [file = ''] = globSync(join(await unpacked(archiveOf(platform)), 'vec-operator{,.exe}'))
    t.ok(readFileSync(file).includes(FUSE), platform)
  }
  await t.rejects(
    release('binary', '--platform', 'darwin-arm64'),
    /--node: there is no npm package/,
  )
})

await t.test('the file of this platform runs without Node and reads a cluster', async (t) => {
  const program = join(folder, basename(archiveOf(HERE), '.tar.gz'), 'vec-operator')
  const kubeconfig = await clusterWith(t, 'docs')
  // Without the environment of this process, Node on PATH, and packages in its folder.
  const says = async (...args: string[]) =>
    run('env', ['-i', 'PATH=/nowhere', `KUBECONFIG=${kubeconfig}`, program, ...args])
  t.equal(await says('--version'), `vec-operator ${version}\n`)
  t.match(await says('explain', 'LastCopy'), /last Active replica/)
  t.match(await says('status', '--all-namespaces'), /^prod +.*docs/m)
})

await t.test(
  'krew installs the plugin from its manifest, and refuses another archive',
  async (t) => {
    await t.rejects(release('index'), /no archive for darwin-amd64, darwin-arm64/)
    for (const platform of ['darwin-amd64', 'darwin-arm64']) {
      writeFileSync(join(files, archiveOf(platform)), 'made by the workflow on macOS')
    }
    await release('index')
    const manifest = join(files, 'vec-operator.yaml')
    await run(tools['validate-krew-manifest'], ['-manifest', manifest, '-skip-install'])
    const { spec } = parse(readFileSync(manifest, 'utf8')) as { spec: { platforms: object[] } }
    t.equal(spec.platforms.length, 5)
    const install = async (archive: string) =>
      run(krew, ['install', `--manifest=${manifest}`, `--archive=${archive}`], {
        env: { KREW_ROOT: join(folder, 'krew'), KREW_NO_UPGRADE_CHECK: '1' },
      })
    const other = join(folder, 'other.tar.gz')
    copyFileSync(join(files, `vec-operator-${version}.tgz`), other)
    await t.rejects(install(other), /checksum/)
    await install(join(files, archiveOf(HERE)))
    const plugin = join(folder, 'krew/bin/kubectl-vec_operator')
    t.equal(await run(plugin, ['--version']), `vec-operator ${version}\n`)
  },
)

const registry = await startRegistry()
/** A key in place of the identity of the workflow, and no public log of signatures. */
const LOCAL_KEY = ['--key', join(folder, 'keys/cosign.key'), '--tlog-upload=false']
const LOCAL_CHECK = ['--key', join(folder, 'keys/cosign.pub'), '--insecure-ignore-tlog']
const signs = async (...args: string[]) =>
  run(cosign, args, { cwd: join(folder, 'keys'), env: { COSIGN_PASSWORD: 'rehearsal' } })
await signs('generate-key-pair')

await t.test('the checksums are signed, and a changed file is noticed', async (t) => {
  const sums = join(files, 'SHA256SUMS')
  const bundle = ['--bundle', `${sums}.sigstore.json`]
  const local = ['--use-signing-config=false', ...LOCAL_KEY]
  await signs('sign-blob', '--yes', ...local, ...bundle, sums)
  await signs('verify-blob', ...LOCAL_CHECK, ...bundle, sums)
  const check = async () => run('sha256sum', ['--check', '--strict', 'SHA256SUMS'], { cwd: files })
  await check()
  writeFileSync(join(files, 'vec-operator-crds.yaml'), 'changed')
  await t.rejects(check(), /vec-operator-crds.yaml: FAILED/)
  writeFileSync(sums, 'changed')
  await t.rejects(signs('verify-blob', ...LOCAL_CHECK, ...bundle, sums), /invalid signature/)
})

await t.test('the chart comes back from the registry as it was pushed, and signed', async (t) => {
  const chart = `vec-operator-${version}.tgz`
  const pushed = join(files, chart)
  const said = await run('bash', [
    '-c',
    `"${helm}" push "${pushed}" oci://${registry}/charts --plain-http 2>&1`,
  ])
  const digest = /sha256:[0-9a-f]+/.exec(said)?.[0] ?? ''
  const into = join(folder, 'pulled')
  mkdirSync(into)
  const from = [`oci://${registry}/charts/vec-operator`, '--version', version]
  await run(helm, ['pull', ...from, '--plain-http', '--destination', into])
  t.ok(readFileSync(join(into, chart)).equals(readFileSync(pushed)))
  await checkSignature(t, `${registry}/charts/vec-operator@${digest}`)
})

await t.test('the image in the registry is signed, and another one is not', async (t) => {
  const { archive } = await buildOperatorImage({ helm })
  await run(crane, ['push', '--insecure', archive, `${registry}/vec-operator:${version}`])
  const digest = (
    await run(crane, ['digest', '--insecure', `${registry}/vec-operator:${version}`])
  ).trim()
  await checkSignature(t, `${registry}/vec-operator@${digest}`)
  await run(crane, [
    ...['mutate', '--insecure', `${registry}/vec-operator:${version}`, '--label', 'changed=yes'],
    ...['--tag', `${registry}/vec-operator:changed`],
  ])
  t.notOk(await succeeds(verify(`${registry}/vec-operator:changed`)), 'a changed image is refused')
})

const made = globSync('*', { cwd: files }).length
t.comment(`${t.passing() ? 'rehearsed' : 'FAILED'}: ${made} files, image and chart in a registry`)

async function verify(reference: string): Promise<string> {
  return signs('verify', ...LOCAL_CHECK, '--allow-http-registry', reference)
}

/** Not before it was signed. */
async function checkSignature(t: Test, reference: string): Promise<void> {
  t.notOk(await succeeds(verify(reference)), 'no signature yet')
  const local = ['--use-signing-config=false', ...LOCAL_KEY, '--allow-http-registry']
  await signs('sign', '--yes', ...local, reference)
  await verify(reference)
}

async function startRegistry(): Promise<string> {
  const address = `127.0.0.1:${await freePort()}`
  const process = startProcess(
    {
      ...{ name: 'registry', command: crane, log: join(folder, 'registry.log') },
      args: ['registry', 'serve', '--address', address],
    },
    folder,
  )
  t.teardown(() => stopProcess(process))
  await waitFor('the registry serves', () => succeeds(fetch(`http://${address}/v2/`)), { process })
  return address
}

/** A kubeconfig of an API with one VecCluster. */
async function clusterWith(t: Test, name: string): Promise<string> {
  const { server, api } = await openApi(t)
  for (const resource of RESOURCES) await api.create(customResourceDefinition(resource, version))
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'prod' } })
  await api.create({
    ...{ apiVersion: API_VERSION, kind: 'VecCluster', metadata: { name, namespace: 'prod' } },
    spec: { version: '1.18.3' },
  })
  const file = join(folder, 'kubeconfig')
  writeKubeconfig(file, server, 'default')
  return file
}
