/**
 * The images the cluster runs: the operator's own out of the repository's Dockerfile, the engine
 * (the real binary, or our double of it), and a small one for sandboxes and probes.
 */
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'

import { fingerprint } from '../fingerprint.ts'
import { MADE_OF } from '../program.ts'
import { buildArchive, buildBase } from './buildah.ts'
import type { Image } from './buildah.ts'
import { program } from './packages.ts'
import { run } from './process.ts'
import { addBasics, addCertificates, addCLibrary, addProgram, CERTIFICATES } from './rootfs.ts'
import type { Tools } from './tools.ts'

const REPOSITORY = join(import.meta.dirname, '..', '..')
const ENGINE_REPOSITORY = 'docker.io/qdrant/qdrant'
const NODE = join(REPOSITORY, 'node_modules/.bin/node')
/** Decides what is in every image made here, so a change of it changes them all. */
const ROOTFS = join(import.meta.dirname, 'rootfs.ts')
const SOURCES = [...MADE_OF, 'Dockerfile', '.dockerignore', '.npmrc']

/** Sleeps; holds the network of a pod, and serves as a client with a shell. */
export async function busyboxImage(): Promise<Image> {
  const dockerfile = 'FROM scratch\nADD . /\nCMD ["sleep", "2147483647"]\n'
  return buildArchive({
    name: 'localhost/vec-operator/busybox:local',
    family: 'busybox',
    fingerprint: fingerprint([dockerfile], [program('busybox'), ROOTFS]),
    context: addBasics,
    dockerfile: { text: dockerfile },
  })
}

/** Our image, by our Dockerfile, on bases made here in place of those a registry has. */
export async function buildOperatorImage(tools: Pick<Tools, 'helm'>): Promise<Image> {
  const [node, helm] = [await nodeImage({ npm: true }), await helmImage(tools.helm)]
  const cache = (await run('npm', ['config', 'get', 'cache'])).trim()
  const print = fingerprint([node, helm], SOURCES.map(inRepository))
  return buildArchive({
    name: `localhost/vec-operator:${print}`,
    family: 'vec-operator',
    fingerprint: print,
    context: REPOSITORY,
    dockerfile: { file: inRepository('Dockerfile') },
    options: [
      ...['--build-arg', `NODE_IMAGE=${node}`, '--build-arg', `HELM_IMAGE=${helm}`],
      ...['--pull-never', '--network', 'host', '--volume', `${cache}:/root/.npm`],
      ...npmSettings(),
    ],
  })
}

export interface EngineOptions {
  readonly engineBin: string
  /** Its base configuration; without it the engine falls back to the one built into it. */
  readonly engineConfig?: string | undefined
  /** Version of the image; by default that of the binary. */
  readonly as?: string | undefined
}

/** The real engine in the layout that its chart expects of its image. */
export async function buildEngineImage(options: EngineOptions): Promise<Image> {
  const { engineBin, engineConfig } = options
  const version = options.as ?? /\d+\.\d+\.\d+\S*/.exec(await run(engineBin, ['--version']))?.[0]
  if (version === undefined) throw new Error(`${engineBin} --version names no version`)
  const dockerfile = engineDockerfile('scratch', version)
  const config = engineConfig === undefined ? [] : [engineConfig]
  return buildArchive({
    name: `${ENGINE_REPOSITORY}:v${version}`,
    family: `engine-${version}`,
    fingerprint: fingerprint([dockerfile, entrypoint('./qdrant')], [engineBin, ...config, ROOTFS]),
    dockerfile: { text: dockerfile },
    context: async (root) => {
      await addBasics(root)
      await addProgram(root, engineBin, 'qdrant/qdrant')
      await addEngineLayout(root, './qdrant')
      if (engineConfig !== undefined) cpSync(engineConfig, join(root, 'qdrant/config/config.yaml'))
    },
  })
}

/** Our double under the engine's name, for machines that have no engine. */
export async function buildDoubleImage(version = '1.18.3'): Promise<Image> {
  const node = await nodeImage({ npm: false })
  const command = 'node /app/test/doubles/engine/main.ts'
  const dockerfile = engineDockerfile(node, version) + COMPILED
  const copied = ['package.json', 'crds', 'test/doubles/engine', ...modulesOfDouble()]
  const sources = copied.filter((path) => !path.startsWith('node_modules')).map(inRepository)
  const lock = inRepository('package-lock.json')
  return buildArchive({
    name: `${ENGINE_REPOSITORY}:v${version}`,
    family: `double-${version}`,
    fingerprint: fingerprint([dockerfile, entrypoint(command)], [...sources, lock]),
    dockerfile: { text: dockerfile },
    context: async (root) => {
      await addEngineLayout(root, command)
      for (const path of copied) {
        if (!existsSync(inRepository(path))) continue
        mkdirSync(dirname(join(root, 'app', path)), { recursive: true })
        cpSync(inRepository(path), join(root, 'app', path), { recursive: true })
      }
    },
  })
}

const inRepository = (path: string) => join(REPOSITORY, path)

async function nodeImage({ npm: withNpm }: { npm: boolean }): Promise<string> {
  const npm = join((await run('npm', ['root', '--global'])).trim(), 'npm')
  // What this machine trusts, the build trusts: a registry may be reached through a proxy of its own.
  const dockerfile = `FROM scratch
ADD . /
ENV PATH=/usr/local/bin:/usr/bin:/bin HOME=/root NODE_EXTRA_CA_CERTS=${CERTIFICATES}
`
  const version = withNpm ? await run('npm', ['--version']) : 'no npm'
  const made = [dockerfile, await run(NODE, ['--version']), version]
  return buildBase({
    name: `localhost/vec-operator/node:${fingerprint(made, [CERTIFICATES, ROOTFS])}`,
    family: 'node',
    fingerprint: '',
    dockerfile: { text: dockerfile },
    context: async (root) => {
      await addBasics(root)
      await addProgram(root, NODE, 'usr/local/bin/node')
      await addCLibrary(root, NODE)
      if (!withNpm) return
      cpSync(npm, join(root, 'usr/local/lib/node_modules/npm'), { recursive: true })
      const script = '#!/bin/sh\nexec node /usr/local/lib/node_modules/npm/bin/npm-cli.js "$@"\n'
      writeFileSync(join(root, 'usr/local/bin/npm'), script, { mode: 0o755 })
    },
  })
}

async function helmImage(helm: string): Promise<string> {
  return buildBase({
    name: `localhost/vec-operator/helm:${fingerprint([helm], [CERTIFICATES, ROOTFS])}`,
    family: 'helm',
    fingerprint: '',
    dockerfile: { text: 'FROM scratch\nADD . /\n' },
    context: async (root) => {
      addCertificates(root)
      await addProgram(root, helm, 'usr/bin/helm')
    },
  })
}

/** npm settings of this machine (a proxy, a mirror) apply inside the build as well. */
function npmSettings(): string[] {
  const file = process.env['NPM_CONFIG_USERCONFIG'] ?? join(homedir(), '.npmrc')
  return existsSync(file) ? ['--volume', `${file}:/root/.npmrc:ro`] : []
}

function engineDockerfile(base: string, version: string): string {
  return `FROM ${base}
ADD . /
ENV PATH=/usr/local/bin:/usr/bin:/bin RUN_MODE=production TZ=Etc/UTC \
  QDRANT__TELEMETRY_DISABLED=true ENGINE_VERSION=${version}
WORKDIR /qdrant
EXPOSE 6333 6334 6335
CMD ["./entrypoint.sh"]
`
}

/** The compile cache of Node is kept for the user that the chart runs them as: pods start sooner. */
const COMPILED = `ENV NODE_COMPILE_CACHE=/app/compiled
RUN node -e "fs.mkdirSync('/app/compiled'); fs.chownSync('/app/compiled', 1000, 2000)"
USER 1000:2000
RUN node -e "import('/app/test/doubles/engine/node.ts')"
USER 0:0
`

const entrypoint = (command: string) => `#!/bin/bash\nexec ${command} "$@"\n`

async function addEngineLayout(root: string, command: string): Promise<void> {
  await addProgram(root, '/bin/bash', 'bin/bash')
  for (const folder of ['config', 'storage', 'snapshots']) {
    mkdirSync(join(root, 'qdrant', folder), { recursive: true })
    chmodSync(join(root, 'qdrant', folder), 0o777)
  }
  writeFileSync(join(root, 'qdrant/config/config.yaml'), 'log_level: INFO\n')
  writeFileSync(join(root, 'qdrant/entrypoint.sh'), entrypoint(command), { mode: 0o755 })
}

/** Folders of the packages that the double imports, and of those that these need in turn. */
function modulesOfDouble(): string[] {
  const lock = JSON.parse(readFileSync(inRepository('package-lock.json'), 'utf8')) as {
    packages: Record<string, { dependencies?: Record<string, string> }>
  }
  const folders = new Set<string>()
  const add = (name: string) => {
    const folder = `node_modules/${name}`
    if (folders.has(folder) || lock.packages[folder] === undefined) return
    folders.add(folder)
    Object.keys(lock.packages[folder].dependencies ?? {}).forEach(add)
  }
  for (const file of globSync('test/doubles/engine/**/*.ts', { cwd: REPOSITORY })) {
    const imports = readFileSync(inRepository(file), 'utf8').matchAll(
      /from '((?:@[\w-]+\/)?[\w-]+)/g,
    )
    for (const [, name = ''] of imports) add(name)
  }
  return [...folders]
}
