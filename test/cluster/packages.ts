/** The Debian packages the local cluster needs, installed by name where their programs are missing. */
import { existsSync } from 'node:fs'

import { run } from './process.ts'
import type { Log } from './tools.ts'

/** A program, and the package that brings it. */
const PACKAGES: Readonly<Record<string, string>> = {
  etcd: 'etcd-server',
  containerd: 'containerd',
  ctr: 'containerd',
  'containerd-shim-runc-v2': 'containerd',
  runc: 'runc',
  bridge: 'containernetworking-plugins',
  'host-local': 'containernetworking-plugins',
  buildah: 'buildah',
  busybox: 'busybox-static',
  iptables: 'iptables',
  'iptables-save': 'iptables',
  'iptables-restore': 'iptables',
  'ip6tables-save': 'iptables',
  'ip6tables-restore': 'iptables',
  conntrack: 'conntrack',
  ip: 'iproute2',
  mount: 'mount',
  umount: 'mount',
  losetup: 'mount',
  'mkfs.xfs': 'xfsprogs',
  xfs_growfs: 'xfsprogs',
  unshare: 'util-linux',
  tar: 'tar',
}
const FOLDERS = ['/usr/bin', '/usr/sbin', '/bin', '/sbin', '/usr/lib/cni']

/** Where a program of the list above is, once installed. */
export function program(name: string): string {
  const found = FOLDERS.map((folder) => `${folder}/${name}`).find((file) => existsSync(file))
  if (found === undefined)
    throw new Error(`${name} is missing: apt-get install ${PACKAGES[name] ?? name}`)
  return found
}

export async function installPackages(log: Log): Promise<void> {
  const missing = [
    ...new Set(
      Object.keys(PACKAGES)
        .filter(isMissing)
        .map((name) => PACKAGES[name] ?? ''),
    ),
  ]
  if (missing.length === 0) return
  if (process.getuid?.() !== 0) {
    throw new Error(`these packages are missing, install them as root: ${missing.join(' ')}`)
  }
  log(`installing ${missing.join(' ')}`)
  const env = { DEBIAN_FRONTEND: 'noninteractive' }
  await run('apt-get', ['update', '-qq'], { env })
  await run('apt-get', ['install', '-y', '-qq', '--no-install-recommends', ...missing], { env })
}

function isMissing(name: string): boolean {
  return !FOLDERS.some((folder) => existsSync(`${folder}/${name}`))
}
