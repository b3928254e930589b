/**
 * Root file systems out of the programs of this machine: where no registry can be reached, a base
 * image is a program with the libraries it is linked to, busybox for a shell, and a user table.
 */
import { cpSync, existsSync, mkdirSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

import { program } from './packages.ts'
import { run } from './process.ts'

export const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
/** Of glibc, what addons are linked to and few programs are; every base of Debian's has them. */
const C_LIBRARY = ['librt.so.1', 'libresolv.so.2', 'libutil.so.1']
const USERS = 'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\n'
const GROUPS = 'root:x:0:\nnode:x:1000:\n'

/** Busybox with all its names, users, certificates and the directories every program expects. */
export async function addBasics(root: string): Promise<void> {
  for (const folder of ['bin', 'etc', 'home/node', 'root', 'usr/bin', 'usr/local/bin']) {
    mkdirSync(join(root, folder), { recursive: true })
  }
  mkdirSync(join(root, 'tmp'), { mode: 0o1777 })
  cpSync(program('busybox'), join(root, 'bin/busybox'))
  // Links relative to the root they will be in; programs of the base image come later and win.
  const names = (await run(program('busybox'), ['--list'])).split('\n').filter(Boolean)
  const links = names.filter((name) => name !== 'busybox').map((name) => `ln -s busybox ${name}`)
  // Scripts name their interpreter by this path.
  links.push('ln -s ../../bin/busybox ../usr/bin/env')
  await run('sh', ['-e'], { cwd: join(root, 'bin'), input: links.join('\n') })
  writeFileSync(join(root, 'etc/passwd'), USERS)
  writeFileSync(join(root, 'etc/group'), GROUPS)
  addCertificates(root)
}

/** The authorities this machine trusts; none where it knows of none. */
export function addCertificates(root: string): void {
  const target = join(root, CERTIFICATES)
  mkdirSync(dirname(target), { recursive: true })
  if (existsSync(CERTIFICATES)) cpSync(CERTIFICATES, target)
  else writeFileSync(target, '')
}

/** A program, and the libraries it is linked to where the loader will look for them. */
export async function addProgram(root: string, source: string, target: string): Promise<void> {
  copy(source, join(root, target))
  const linked = await run('ldd', [source]).catch(() => '')
  for (const library of librariesIn(linked)) copy(library, join(root, library))
}

/** The rest of the C library that a program is linked to. */
export async function addCLibrary(root: string, program: string): Promise<void> {
  const libc = librariesIn(await run('ldd', [program])).find((path) => path.endsWith('/libc.so.6'))
  if (libc === undefined) return
  for (const library of C_LIBRARY.map((name) => join(dirname(libc), name))) {
    if (existsSync(library)) copy(library, join(root, library))
  }
}

function librariesIn(linked: string): string[] {
  return [...linked.matchAll(/\/\S+(?= \(0x)/g)].map(([library]) => library)
}

/** The link's file under the link's name: the base image has none of the machine's links. */
function copy(source: string, target: string): void {
  mkdirSync(dirname(target), { recursive: true })
  cpSync(realpathSync(source), target)
}
