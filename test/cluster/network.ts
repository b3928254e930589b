/**
 * The network of the node: a bridge that gives it a stable address, the configuration by which pods
 * get theirs, and the removal of every rule, namespace and link that a cluster leaves behind.
 */
import { existsSync, readdirSync, writeFileSync } from 'node:fs'

import { program } from './packages.ts'
import { run } from './process.ts'
import type { Ground } from './state.ts'

export const NODE_ADDRESS = '10.210.0.1'
export const POD_RANGE = '10.211.0.0/16'
export const SERVICE_RANGE = '10.96.0.0/16'

export const NETWORK_NAME = 'vec-operator'

const NODE_BRIDGE = 'vec-node'
const POD_BRIDGE = 'vec-pods'
const OUR_COMMENT = 'vec-operator cluster'
const NETWORK_NAMESPACES = '/var/run/netns'
const SETTINGS = {
  '/proc/sys/net/ipv4/ip_forward': '1',
  // Else the answer of a pod on the same bridge bypasses the service address of the request.
  '/proc/sys/net/bridge/bridge-nf-call-iptables': '1',
}

/** Names of pod network namespaces that exist now. */
export function podNetworkNamespaces(): string[] {
  if (!existsSync(NETWORK_NAMESPACES)) return []
  return readdirSync(NETWORK_NAMESPACES).filter((name) => name.startsWith('cni-'))
}

export async function openNetwork(ground: Ground): Promise<void> {
  const addresses = await run(program('ip'), ['-o', '-4', 'address'])
  const taken = /\binet 10\.21[01]\.\S+/.exec(addresses)
  if (taken !== null) throw new Error(`the machine already uses ${taken[0].slice(5)}`)

  // A bridge, because not every kernel has the dummy device.
  await ip('link', 'add', NODE_BRIDGE, 'type', 'bridge')
  await ip('address', 'add', `${NODE_ADDRESS}/32`, 'dev', NODE_BRIDGE)
  await ip('link', 'set', NODE_BRIDGE, 'up')
  for (const [file, value] of Object.entries(SETTINGS)) {
    if (existsSync(file)) writeFileSync(file, value)
  }
  // No masquerading: nothing that runs in a pod reaches beyond this machine.
  await restoreRules('iptables', 'filter', [
    `-I FORWARD -s ${POD_RANGE} ${comment} -j ACCEPT`,
    `-I FORWARD -d ${POD_RANGE} ${comment} -j ACCEPT`,
  ])
  ground.write('cni/conf/10-pods.conflist', JSON.stringify(podNetwork(ground), undefined, 2))
}

/** Removes all of it, whatever is there; knows nothing of how it came to be. */
export async function closeNetwork(before: readonly string[]): Promise<void> {
  for (const name of podNetworkNamespaces()) {
    if (!before.includes(name)) await ip('netns', 'delete', name)
  }
  for (const bridge of [POD_BRIDGE, NODE_BRIDGE]) {
    if (existsSync(`/sys/class/net/${bridge}`)) await ip('link', 'delete', bridge)
  }
  for (const family of ['iptables', 'ip6tables'] as const) {
    for (const table of ['nat', 'filter', 'mangle']) await removeRules(family, table)
  }
}

type Family = 'iptables' | 'ip6tables'

const comment = `-m comment --comment "${OUR_COMMENT}"`

function podNetwork(ground: Ground): object {
  const ipam = {
    type: 'host-local',
    ranges: [[{ subnet: POD_RANGE }]],
    routes: [{ dst: '0.0.0.0/0' }],
    dataDir: ground.path('cni/addresses'),
  }
  const bridge = { type: 'bridge', bridge: POD_BRIDGE, isGateway: true, hairpinMode: true, ipam }
  return { cniVersion: '0.4.0', name: NETWORK_NAME, plugins: [bridge] }
}

async function ip(...args: string[]): Promise<void> {
  await run(program('ip'), args)
}

/**
 * Deletes our own rules and every chain of kube-proxy in one table, in one step. Read and tried
 * again, because a child of a kube-proxy that just ended may still change them in between.
 */
async function removeRules(family: Family, table: string, attempts = 3): Promise<void> {
  const lines = (await run(program(`${family}-save`), ['-t', table])).split('\n')
  const chains = lines.flatMap((line) => /^:(KUBE-\S+)/.exec(line)?.[1] ?? [])
  const rules = lines.filter(
    (line) =>
      /^-A (?!KUBE-)/.test(line) && (line.includes(OUR_COMMENT) || line.includes(' -j KUBE-')),
  )
  try {
    await restoreRules(family, table, [
      ...rules.map((line) => line.replace('-A', '-D')),
      ...chains.map((chain) => `-F ${chain}`),
      ...chains.map((chain) => `-X ${chain}`),
    ])
  } catch (error) {
    if (attempts <= 1) throw error
    await removeRules(family, table, attempts - 1)
  }
}

async function restoreRules(
  family: Family,
  table: string,
  rules: readonly string[],
): Promise<void> {
  if (rules.length === 0) return
  const input = `*${table}\n${rules.join('\n')}\nCOMMIT\n`
  await run(program(`${family}-restore`), ['--noflush', '--wait'], { input })
}
