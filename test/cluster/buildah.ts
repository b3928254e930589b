/**
 * Images without a container engine and without a registry: buildah in a store of its own, and
 * archives kept in the cache under the hash of what went into them.
 */
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { program } from './packages.ts'
import { run } from './process.ts'
import { CACHE } from './state.ts'

/** An image as an archive that containerd imports. */
export interface Image {
  /** With its tag, as a pod names it. */
  readonly name: string
  readonly archive: string
  readonly sizeBytes: number
}

export interface Recipe {
  readonly name: string
  /** Archives of one family replace each other in the cache. */
  readonly family: string
  /** Changes exactly when the image would. */
  readonly fingerprint: string
  /** Puts the build context into an empty directory; or names one that is there. */
  readonly context: string | ((directory: string) => void | Promise<void>)
  /** The Dockerfile's text; or the path of one. */
  readonly dockerfile: { readonly text: string } | { readonly file: string }
  readonly options?: readonly string[]
}

const STORE = join(CACHE, 'buildah')
const ARCHIVES = join(CACHE, 'images')
const STORE_OPTIONS = [
  ...['--root', join(STORE, 'root'), '--runroot', join(STORE, 'run')],
  // Where the kernel has overlay, a step costs what it changes; vfs copies everything at each step.
  ...(readFileSync('/proc/filesystems', 'utf8').includes('\toverlay\n')
    ? // Else the store would be left mounted onto itself.
      ['--storage-driver', 'overlay', '--storage-opt', 'overlay.skip_mount_home=true']
    : ['--storage-driver', 'vfs']),
]

/** Builds an image and keeps it in the store, to be the base of others. */
export async function buildBase(recipe: Recipe): Promise<string> {
  if (!(await known(recipe.name))) await bud(recipe, recipe.name)
  return recipe.name
}

/** Builds an image into an archive, unless the same one is there. */
export async function buildArchive(recipe: Recipe): Promise<Image> {
  mkdirSync(ARCHIVES, { recursive: true })
  const family = recipe.family.replaceAll(/[^\w.-]+/g, '_')
  const archive = join(ARCHIVES, `${family}-${recipe.fingerprint}.tar`)
  if (!existsSync(archive)) {
    await bud(recipe, recipe.name)
    rmSync(`${archive}.new`, { force: true })
    await buildah('push', '--quiet', recipe.name, `docker-archive:${archive}.new:${recipe.name}`)
    await forgetOthers(recipe.name)
    renameSync(`${archive}.new`, archive)
    for (const old of readdirSync(ARCHIVES).map((name) => join(ARCHIVES, name))) {
      if (old.startsWith(join(ARCHIVES, `${family}-`)) && old !== archive) rmSync(old)
    }
  }
  return { name: recipe.name, archive, sizeBytes: statSync(archive).size }
}

async function bud(recipe: Recipe, name: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'vec-image-'))
  try {
    const { dockerfile, options = [] } = recipe
    const file = 'file' in dockerfile ? dockerfile.file : join(work, 'Dockerfile')
    if ('text' in dockerfile) writeFileSync(file, dockerfile.text)
    const context = typeof recipe.context === 'string' ? recipe.context : join(work, 'context')
    if (typeof recipe.context !== 'string') {
      mkdirSync(context)
      await recipe.context(context)
    }
    await buildah(
      'bud',
      '--quiet',
      '--layers',
      '--force-rm',
      '--tag',
      name,
      '--file',
      file,
      ...options,
      context,
    )
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** The newest is kept, for the layers that its successor shares; older ones are deleted. */
async function forgetOthers(name: string): Promise<void> {
  const repository = name.replace(/:[^:/]+$/, '')
  const listed = (await buildah('images', '--format', '{{.Name}}:{{.Tag}}')).split('\n')
  const others = listed.filter((other) => other.startsWith(`${repository}:`) && other !== name)
  if (others.length > 0) await buildah('rmi', '--force', ...others)
}

async function known(name: string): Promise<boolean> {
  return (await buildah('images', '--quiet', '--filter', `reference=${name}`)) !== ''
}

function buildah(...args: string[]): Promise<string> {
  const env = { BUILDAH_ISOLATION: 'chroot' }
  return run(program('buildah'), [...STORE_OPTIONS, ...args], { env })
}
