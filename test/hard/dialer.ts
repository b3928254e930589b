/**
 * Which of our processes opened a TCP connection on loopback (Linux). All peers dial from 127.0.0.1, so
 * only the kernel's connection table distinguishes them.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import type { Socket } from 'node:net'

/** The process among these that holds the other end of a connection we accepted. */
export function dialerOf(accepted: Socket, pids: readonly number[]): number | undefined {
  const { remoteAddress = '', remotePort = 0, localAddress = '', localPort = 0 } = accepted
  const inode = inodeOf(hex(remoteAddress, remotePort), hex(localAddress, localPort))
  if (inode === undefined) return undefined
  return pids.find((pid) => holds(pid, `socket:[${inode}]`))
}

function inodeOf(local: string, remote: string): string | undefined {
  for (const line of read('/proc/net/tcp').split('\n')) {
    const fields = line.trim().split(/\s+/)
    if (fields[1] === local && fields[2] === remote) return fields[9]
  }
  return undefined
}

/** As the table writes an address: the bytes of IPv4 in the order of the machine, and the port. */
function hex(address: string, port: number): string {
  const bytes = Buffer.from(
    address
      .replace(/^::ffff:/, '')
      .split('.')
      .map(Number),
  )
  const ip = bytes.readUInt32LE().toString(16).padStart(8, '0')
  return `${ip}:${port.toString(16).padStart(4, '0')}`.toUpperCase()
}

function holds(pid: number, socket: string): boolean {
  const folder = `/proc/${pid}/fd`
  try {
    return readdirSync(folder).some((name) => linkOf(`${folder}/${name}`) === socket)
  } catch {
    // The process has ended.
    return false
  }
}

function linkOf(path: string): string {
  try {
    return readlinkSync(path)
  } catch {
    return ''
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
