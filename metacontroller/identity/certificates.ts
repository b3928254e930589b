/**
 * Certificates of the hook port: an authority that nobody but Metacontroller trusts, and for nothing but
 * our hooks, and the certificates that it signs for the service. ECDSA with P-256 and SHA-256.
 */
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isIP, isIPv4 } from 'node:net'
import {
  bits,
  instant,
  integer,
  objectId,
  octets,
  sequence,
  setOf,
  tagged,
  truth,
  utf8,
} from './der.ts'

/** Both in PEM. */
export interface KeyPair {
  cert: string
  key: string
}

interface Certificate {
  subject: string
  /** Of the subject, SPKI in DER. */
  publicKey: Buffer
  issuer: { name: string; publicKey: Buffer; key: string }
  extensions: Buffer[]
  from: Date
  until: Date
}

const IDS = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  basicConstraints: '2.5.29.19',
  keyUsage: '2.5.29.15',
  extendedKeyUsage: '2.5.29.37',
  subjectKeyId: '2.5.29.14',
  authorityKeyId: '2.5.29.35',
  subjectAltName: '2.5.29.17',
  serverAuth: '1.3.6.1.5.5.7.3.1',
}

const AUTHORITY = 'vec-operator hooks'
/** Clocks differ: who is an hour behind trusts it as well. */
const EARLIER_MS = 3_600_000

/** An authority that signs for itself. */
export function newAuthority(now: Date, days: number): KeyPair {
  const pair = newKeys()
  const cert = certificate({
    ...{ subject: AUTHORITY, publicKey: pair.publicKey, ...lifetime(now, days) },
    issuer: { name: AUTHORITY, publicKey: pair.publicKey, key: pair.key },
    extensions: [
      // It may sign no other authority.
      extension(IDS.basicConstraints, sequence(truth(), integer(Buffer.from([0]))), true),
      // keyCertSign
      extension(IDS.keyUsage, bits(Buffer.from([0x04]), 2), true),
      extension(IDS.subjectKeyId, octets(keyId(pair.publicKey))),
    ],
  })
  return { cert, key: pair.key }
}

/** A certificate of a server, for host names and addresses. */
export function newCertificate(
  authority: KeyPair,
  hosts: readonly string[],
  now: Date,
  days: number,
): KeyPair {
  const pair = newKeys()
  const issuerKey = createPublicKey(authority.key).export({ type: 'spki', format: 'der' })
  const cert = certificate({
    ...{ subject: 'vec-operator', publicKey: pair.publicKey, ...lifetime(now, days) },
    issuer: { name: AUTHORITY, publicKey: issuerKey, key: authority.key },
    extensions: [
      extension(IDS.basicConstraints, sequence(), true),
      // digitalSignature
      extension(IDS.keyUsage, bits(Buffer.from([0x80]), 7), true),
      extension(IDS.extendedKeyUsage, sequence(objectId(IDS.serverAuth))),
      extension(IDS.authorityKeyId, sequence(tagged(0x80, keyId(issuerKey)))),
      extension(IDS.subjectAltName, sequence(...hosts.map(altName))),
    ],
  })
  return { cert, key: pair.key }
}

function newKeys(): { key: string; publicKey: Buffer } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
  }
}

function lifetime(now: Date, days: number): { from: Date; until: Date } {
  return {
    from: new Date(now.getTime() - EARLIER_MS),
    until: new Date(now.getTime() + days * 86_400_000),
  }
}

function certificate({ subject, publicKey, issuer, extensions, from, until }: Certificate): string {
  const algorithm = sequence(objectId(IDS.ecdsaWithSha256))
  // Positive, and never zero.
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(15)])
  const signed = sequence(
    // Version 3
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    nameOf(issuer.name),
    sequence(instant(from), instant(until)),
    nameOf(subject),
    publicKey,
    tagged(0xa3, sequence(...extensions)),
  )
  const signature = sign('sha256', signed, issuer.key)
  return pem(sequence(signed, algorithm, bits(signature)))
}

function nameOf(text: string): Buffer {
  return sequence(setOf(sequence(objectId(IDS.commonName), utf8(text))))
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(objectId(id), ...(isCritical ? [truth()] : []), octets(value))
}

function keyId(publicKey: Buffer): Buffer {
  return createHash('sha1').update(publicKey).digest()
}

function altName(host: string): Buffer {
  if (isIP(host) === 0) return tagged(0x82, Buffer.from(host))
  return tagged(0x87, isIPv4(host) ? Buffer.from(host.split('.').map(Number)) : bytesOfIPv6(host))
}

/** Sixteen bytes; `::` stands for as many zeros as are missing. */
function bytesOfIPv6(address: string): Buffer {
  const [head = '', tail] = address.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const [before, after] = [groups(head), groups(tail ?? '')]
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  const bytes = Buffer.alloc(16)
  for (const [at, group] of [...before, ...zeros, ...after].entries()) {
    bytes.writeUInt16BE(Number.parseInt(group, 16), 2 * at)
  }
  return bytes
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}
