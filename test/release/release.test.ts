/** A release as its files describe it: the Dockerfile, the workflow and the bill of materials. Nothing is built here. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import t from 'tap'
import { parse } from 'yaml'
import { RESOURCES } from '../../crds/crd.ts'

const ROOT = join(import.meta.dirname, '../..')
const text = (path: string) => readFileSync(join(ROOT, path), 'utf8')

interface Step {
  uses?: string
  run?: string
}
interface Workflow {
  permissions: object
  jobs: Record<
    string,
    {
      needs?: string | string[]
      environment?: string
      permissions: object
      strategy?: { matrix: { include: { platform: string }[] } }
      steps: Step[]
    }
  >
}

const dockerfile = text('Dockerfile')
const workflow = parse(text('.github/workflows/release.yaml')) as Workflow
const steps = Object.values(workflow.jobs).flatMap((job) => job.steps)
const commands = steps.map(({ run }) => run ?? '').join('\n')

t.test('the bases of the image are build arguments, pinned to a version', async (t) => {
  const bases = [...dockerfile.matchAll(/^ARG (\w+_IMAGE)=(\S+)$/gm)]
  t.strictSame(
    bases.map(([, name]) => name),
    ['NODE_IMAGE', 'HELM_IMAGE'],
  )
  for (const [, , image = ''] of bases) t.match(image, /^[^:]+\/[^:]+:\d+\.\d+\.\d+/)
  const stages = [...dockerfile.matchAll(/^FROM \S+ AS (\S+)$/gm)].map(([, stage]) => stage)
  for (const [, from = ''] of dockerfile.matchAll(/^FROM (\S+)/gm)) {
    t.ok(stages.includes(from) || /^\$\{\w+_IMAGE\}$/.test(from), from)
  }
})

t.test('the Node of the image is that of the tests, and calls itself an LTS release', async (t) => {
  const [, version = ''] = /library\/node:(\S+)-bookworm-slim/.exec(dockerfile) ?? []
  t.equal(`v${version}`, process.version)
  const { lts } = process.release as { lts?: string }
  t.ok(lts, process.version)
  const { optionalDependencies } = JSON.parse(text('package.json')) as {
    optionalDependencies: Record<string, string>
  }
  for (const pinned of Object.values(optionalDependencies)) t.equal(pinned, version)
})

t.test('the helm of the image is the helm of the tests', async (t) => {
  const [, version = ''] = /alpine\/helm:(\S+)/.exec(dockerfile) ?? []
  t.match(text('test/cluster/tools/helm/go.mod'), `helm.sh/helm/v3 v${version}`)
})

t.test(
  'the Dockerfile sets uid 1000, an exec entry point, licences, authorities and labels',
  async (t) => {
    t.match(dockerfile, /^USER 1000:1000$/m)
    t.match(dockerfile, /^ENTRYPOINT \["node"\]$/m)
    t.match(dockerfile, /^CMD \["metacontroller\/serve\.js"\]$/m)
    t.match(dockerfile, 'npm prune --omit=dev --omit=optional')
    t.match(dockerfile, "! -name package.json ! -iname 'licen[cs]e*' ! -iname 'notice*' -exec rm")
    t.match(dockerfile, 'COPY --from=helm /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/')
    for (const label of ['title', 'description', 'source', 'licenses', 'version', 'revision']) {
      t.match(dockerfile, `org.opencontainers.image.${label}=`)
    }
  },
)

t.test('only the account of the program may write the code that is compiled', async (t) => {
  t.match(dockerfile, "fs.mkdirSync('compiled'); fs.chownSync('compiled', 1000, 1000)")
  t.match(dockerfile, 'NODE_COMPILE_CACHE=/app/compiled')
  t.notMatch(dockerfile, /777|chmod|-m /)
})

t.test(
  'a release passes all checks first, and each job has only the rights it needs',
  async (t) => {
    t.strictSame(workflow.permissions, {})
    t.ok(workflow.jobs['check']?.steps.some(({ run }) => run === '.ci/run'))
    t.equal(workflow.jobs['image']?.needs, 'check')
    for (const job of ['files', 'macos']) t.equal(workflow.jobs[job]?.needs, 'check')
    t.strictSame(workflow.jobs['try']?.needs, ['files', 'macos'])
    t.strictSame(workflow.jobs['release']?.needs, ['image', 'try'])
    t.strictSame(workflow.jobs['check']?.permissions, { contents: 'read' })
    const writing = Object.values(workflow.jobs).filter(({ permissions }) =>
      Object.values(permissions).includes('write'),
    )
    t.equal(writing.length, 2)
    t.ok(writing.every(({ environment }) => environment === 'release'))
    t.match(commands, 'npm audit --omit=dev --audit-level=high')
  },
)

t.test(
  'a release has the image for two platforms, the chart, the CRDs and a bill of materials',
  async (t) => {
    t.match(commands, '--platform linux/amd64,linux/arm64')
    t.match(commands, 'helm push "dist/release/vec-operator-${GITHUB_REF_NAME#v}.tgz"')
    t.match(commands, '.ci/sbom > dist/release/vec-operator.cdx.json')
    for (const made of ['chart', 'crds', 'cli', 'index']) {
      t.match(commands, `npm run release -- ${made}\n`)
    }
    const platforms = [
      ...['linux-amd64', 'linux-arm64', 'windows-amd64', 'darwin-arm64', 'darwin-amd64'],
    ]
    const tried = workflow.jobs['try']?.strategy?.matrix.include.map(({ platform }) => platform)
    t.strictSame(tried?.toSorted(), platforms.toSorted(), 'each is run before it is published')
  },
)

t.test('image, chart and checksums are signed before the release page is made', async (t) => {
  const signed = [
    'cosign sign --yes "$IMAGE@',
    'cosign sign-blob --yes',
    'cosign sign --yes "$CHARTS/',
  ]
  const positions = [...signed, 'gh release create'].map((command) => commands.indexOf(command))
  t.notOk(positions.includes(-1))
  t.strictSame(
    positions,
    positions.toSorted((one, other) => one - other),
  )
  for (const job of ['image', 'release']) {
    t.equal((workflow.jobs[job]?.permissions as Record<string, string>)['id-token'], 'write', job)
  }
  t.equal(readdirSync(join(ROOT, 'chart/crds')).length, RESOURCES.length)
})

interface Lock {
  packages: Record<string, { version?: string; dev?: boolean; optional?: boolean }>
}

t.test('the bill of materials names every package of the image, and no other', async (t) => {
  const run = promisify(execFile)
  const { stdout } = await run(join(ROOT, '.ci/sbom'), { maxBuffer: 64 * 1024 * 1024 })
  const bill = JSON.parse(stdout) as {
    bomFormat: string
    components: { name: string; version: string }[]
  }
  t.equal(bill.bomFormat, 'CycloneDX')
  const { packages } = JSON.parse(text('package-lock.json')) as Lock
  const runtime = Object.entries(packages)
    .filter(([path, { dev, optional }]) => path !== '' && dev !== true && optional !== true)
    .map(([path, { version = '' }]) => `${path.replace(/.*node_modules\//, '')}@${version}`)
  const named = bill.components.map(({ name, version }) => `${name}@${version}`)
  t.strictSame([...new Set(named)].sort(), [...new Set(runtime)].sort())
})
