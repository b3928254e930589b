/**
 * Which addresses a process that works for all tenants may connect to on behalf of one of them.
 * Names are checked when a connection is made, by the addresses they then resolve to: an earlier
 * lookup proves nothing.
 */
import { lookup as systemLookup, type LookupAddress, type LookupOptions } from 'node:dns'
import { BlockList, isIP, isIPv6 } from 'node:net'
import { networkInterfaces } from 'node:os'
import { StorageError } from '../../../crds/contract/errors.ts'

export interface AddressRules {
  /** Whether an endpoint may be plain HTTP. */
  allowHttp: boolean
  /**
   * Denied in addition to loopback, link-local and own addresses: networks such as `10.96.0.0/16`.
   */
  denied: readonly string[]
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void

/** The signature that `net.connect` expects. */
export type Lookup = (name: string, options: LookupOptions, callback: LookupCallback) => void

/** Addresses that no tenant may have called from here. */
const ALWAYS_DENIED: readonly string[] = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32'],
  ...['fe80::/10', 'ff00::/8'],
  // IPv4 embedded in IPv6; the first one includes `::` and `::1`.
  ...['::/96', '64:ff9b::/96', '64:ff9b:1::/48', '2002::/16'],
  // Metadata services that are not link-local: Alibaba Cloud, Azure, AWS, Google Cloud and Oracle Cloud.
  ...['100.100.100.200/32', '168.63.129.16/32'],
  ...['fd00:ec2::254/128', 'fd20:ce::254/128', 'fd00:c1::a9fe:a9fe/128'],
]

/** Why a connection was not attempted. Retrying does not help until the address is changed. */
export class AddressRefused extends Error {}

export class AddressGuard {
  readonly #rules: AddressRules
  readonly #localAddresses: () => string[]

  /** Throws on an invalid network. */
  constructor(rules: AddressRules, localAddresses = interfaceAddresses) {
    this.#rules = rules
    this.#localAddresses = localAddresses
    this.#blockList()
  }

  /**
   * Throws `StorageError` for an endpoint that must not be called, whatever its name resolves to.
   */
  check(endpoint: string): void {
    const { protocol, hostname } = new URL(endpoint)
    if (protocol !== 'https:' && !this.#rules.allowHttp) {
      throw addressRefused(`${endpoint} is not https, and this installation purges over https only`)
    }
    const host = hostname.replace(/^\[(.*)\]$/, '$1')
    if (isIP(host) !== 0 && this.#isDenied(host)) throw addressRefused(formatDenial(host, host))
  }

  /** Resolves a name; fails if any of its addresses must not be called. */
  readonly lookup: Lookup = (name, options, callback) => {
    systemLookup(name, { ...options, all: true }, (error, addresses) => {
      if (error !== null) {
        callback(error, [])
        return
      }
      const denied = addresses.find(({ address }) => this.#isDenied(address))
      const [first] = addresses
      if (denied !== undefined) callback(addressRefused(formatDenial(name, denied.address)), [])
      else if (options.all === true || first === undefined) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }

  #isDenied(address: string): boolean {
    // Without the zone of a link-local address.
    const [withoutZone = ''] = address.split('%')
    return this.#blockList().check(withoutZone, isIPv6(withoutZone) ? 'ipv6' : 'ipv4')
  }

  /** Created for each check: addresses of a pod may come and go. */
  #blockList(): BlockList {
    const blockList = new BlockList()
    for (const network of [...ALWAYS_DENIED, ...this.#rules.denied]) addNetwork(blockList, network)
    for (const address of this.#localAddresses())
      blockList.addAddress(address, isIPv6(address) ? 'ipv6' : 'ipv4')
    return blockList
  }
}

function addNetwork(blockList: BlockList, network: string): void {
  const [address = '', bits = ''] = network.split('/')
  const maxBits = isIPv6(address) ? 128 : 32
  const isNetwork = isIP(address) !== 0 && /^\d{1,3}$/.test(bits) && Number(bits) <= maxBits
  if (!isNetwork) throw new Error(`"${network}" is not a network such as 10.96.0.0/16`)
  blockList.addSubnet(address, Number(bits), isIPv6(address) ? 'ipv6' : 'ipv4')
}

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces())
    .flatMap((addresses = []) => addresses)
    .map(({ address }) => address.split('%')[0] ?? address)
}

function formatDenial(host: string, address: string): string {
  const destination = host === address ? address : `${host} has the address ${address}, which`
  return `${destination} is not called from here: loopback, link-local, a metadata service, the operator's own or a denied network`
}

function addressRefused(message: string): StorageError {
  return new StorageError(message, { reason: 'AddressRefused' })
}
