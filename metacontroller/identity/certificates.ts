/**
 * Certificates of the hook port: a CA that only Metacontroller trusts, and only for these hooks,
 * and the server certificates that this CA signs. Keys are ECDSA P-256, signatures use SHA-256. The
 * certificates are encoded as ASN.1 DER here because Node.js cannot create them.
 */
import { createHash, createPublicKey, generateKeyPairSync, randomBytes, sign } from 'node:crypto'
import { isIP, isIPv4 } from 'node:net'

/** Certificate and private key, both in PEM. */
export interface KeyPair {
  cert: string
  key: string
}

export interface CertificateOptions {
  /** Validity. */
  days?: number
  /** Default: of a server only. */
  usages?: readonly ('serverAuth' | 'clientAuth')[]
}

interface Certificate {
  subject: string
  /** Public key of the subject, SPKI in DER. */
  publicKey: Buffer
  issuer: { name: string; publicKey: Buffer; key: string }
  extensions: Buffer[]
  notBefore: Date
  notAfter: Date
}

const OIDS = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  basicConstraints: '2.5.29.19',
  keyUsage: '2.5.29.15',
  extendedKeyUsage: '2.5.29.37',
  subjectKeyId: '2.5.29.14',
  authorityKeyId: '2.5.29.35',
  subjectAltName: '2.5.29.17',
  serverAuth: '1.3.6.1.5.5.7.3.1',
  clientAuth: '1.3.6.1.5.5.7.3.2',
}

const AUTHORITY_DAYS = 3650
const CERTIFICATE_DAYS = 30
const AUTHORITY_NAME = 'vec-operator hooks'
/** Clocks differ: a client whose clock is up to an hour slow must accept the certificate. */
const CLOCK_SKEW_MS = 3_600_000

/** Creates a self-signed CA. */
export function newAuthority(now: Date, days = AUTHORITY_DAYS): KeyPair {
  const keyPair = generateKeys()
  const cert = certificate({
    ...{ subject: AUTHORITY_NAME, publicKey: keyPair.publicKey, ...validity(now, days) },
    issuer: { name: AUTHORITY_NAME, publicKey: keyPair.publicKey, key: keyPair.key },
    extensions: [
      // Path length 0: this CA must not sign another CA.
      extension(OIDS.basicConstraints, sequence(booleanTrue(), integer(Buffer.from([0]))), true),
      // keyCertSign
      extension(OIDS.keyUsage, bitString(Buffer.from([0x04]), 2), true),
      extension(OIDS.subjectKeyId, octetString(keyId(keyPair.publicKey))),
    ],
  })
  return { cert, key: keyPair.key }
}

/** Creates a certificate for these host names and IP addresses. */
export function newCertificate(
  authority: KeyPair,
  hosts: readonly string[],
  now: Date,
  { days = CERTIFICATE_DAYS, usages = ['serverAuth'] }: CertificateOptions = {},
): KeyPair {
  const keyPair = generateKeys()
  const issuerKey = createPublicKey(authority.key).export({ type: 'spki', format: 'der' })
  const cert = certificate({
    ...{ subject: 'vec-operator', publicKey: keyPair.publicKey, ...validity(now, days) },
    issuer: { name: AUTHORITY_NAME, publicKey: issuerKey, key: authority.key },
    extensions: [
      extension(OIDS.basicConstraints, sequence(), true),
      // digitalSignature
      extension(OIDS.keyUsage, bitString(Buffer.from([0x80]), 7), true),
      extension(OIDS.extendedKeyUsage, sequence(...usages.map((usage) => objectId(OIDS[usage])))),
      extension(OIDS.authorityKeyId, sequence(tagged(0x80, keyId(issuerKey)))),
      extension(OIDS.subjectAltName, sequence(...hosts.map(altName))),
    ],
  })
  return { cert, key: keyPair.key }
}

function generateKeys(): { key: string; publicKey: Buffer } {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  return {
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    publicKey: publicKey.export({ type: 'spki', format: 'der' }),
  }
}

function validity(now: Date, days: number): { notBefore: Date; notAfter: Date } {
  return {
    notBefore: new Date(now.getTime() - CLOCK_SKEW_MS),
    notAfter: new Date(now.getTime() + days * 86_400_000),
  }
}

function certificate({
  subject,
  publicKey,
  issuer,
  extensions,
  notBefore,
  notAfter,
}: Certificate): string {
  const algorithm = sequence(objectId(OIDS.ecdsaWithSha256))
  // The leading 1 keeps the serial number positive and non-zero.
  const serial = Buffer.concat([Buffer.from([0x01]), randomBytes(15)])
  const tbsCertificate = sequence(
    // Version 3
    tagged(0xa0, integer(Buffer.from([2]))),
    integer(serial),
    algorithm,
    distinguishedName(issuer.name),
    sequence(encodeTime(notBefore), encodeTime(notAfter)),
    distinguishedName(subject),
    publicKey,
    tagged(0xa3, sequence(...extensions)),
  )
  const signature = sign('sha256', tbsCertificate, issuer.key)
  return pem(sequence(tbsCertificate, algorithm, bitString(signature)))
}

function distinguishedName(text: string): Buffer {
  return sequence(setOf(sequence(objectId(OIDS.commonName), utf8String(text))))
}

function extension(id: string, value: Buffer, isCritical = false): Buffer {
  return sequence(objectId(id), ...(isCritical ? [booleanTrue()] : []), octetString(value))
}

function keyId(publicKey: Buffer): Buffer {
  return createHash('sha1').update(publicKey).digest()
}

function altName(host: string): Buffer {
  if (isIP(host) === 0) return tagged(0x82, Buffer.from(host))
  return tagged(0x87, isIPv4(host) ? Buffer.from(host.split('.').map(Number)) : ipv6Bytes(host))
}

/** The 16 bytes of an IPv6 address; `::` expands to the missing groups of zeros. */
function ipv6Bytes(address: string): Buffer {
  const [head = '', tail] = address.split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const [before, after] = [groups(head), groups(tail ?? '')]
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0')
  const bytes = Buffer.alloc(16)
  for (const [index, group] of [...before, ...zeros, ...after].entries()) {
    bytes.writeUInt16BE(Number.parseInt(group, 16), 2 * index)
  }
  return bytes
}

function pem(der: Buffer): string {
  const lines = der.toString('base64').match(/.{1,64}/g) ?? []
  return `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`
}

const TAGS = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  objectId: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const

/** UTCTime has a two-digit year and ends before this year. */
const FIRST_GENERALIZED_YEAR = 2050

export function tagged(tag: number, ...contents: Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  return Buffer.concat([Buffer.from([tag]), encodeLength(content.length), content])
}

export function sequence(...items: Buffer[]): Buffer {
  return tagged(TAGS.sequence, ...items)
}

export function setOf(...items: Buffer[]): Buffer {
  return tagged(TAGS.set, ...items)
}

/** A non-negative integer of any size, from big-endian bytes. */
export function integer(bytes: Buffer): Buffer {
  const first = bytes[0] ?? 0
  // A set highest bit means a negative number, so prepend a zero byte.
  return tagged(TAGS.integer, first >= 0x80 ? Buffer.concat([Buffer.from([0]), bytes]) : bytes)
}

export function booleanTrue(): Buffer {
  return tagged(TAGS.boolean, Buffer.from([0xff]))
}

export function utf8String(text: string): Buffer {
  return tagged(TAGS.utf8String, Buffer.from(text))
}

export function octetString(content: Buffer): Buffer {
  return tagged(TAGS.octetString, content)
}

/** A bit string; the last `unused` bits are ignored. */
export function bitString(content: Buffer, unused = 0): Buffer {
  return tagged(TAGS.bitString, Buffer.from([unused]), content)
}

/** An object identifier, for example `2.5.29.17`. */
export function objectId(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split('.').map(Number)
  return tagged(TAGS.objectId, Buffer.from([40 * first + second, ...rest.flatMap(base128)]))
}

/** A time in UTC, with a resolution of one second. */
export function encodeTime(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, '')}Z`
  return date.getUTCFullYear() < FIRST_GENERALIZED_YEAR
    ? tagged(TAGS.utcTime, Buffer.from(digits.slice(2)))
    : tagged(TAGS.generalizedTime, Buffer.from(digits))
}

function encodeLength(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length])
  const bytes: number[] = []
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256)
  return Buffer.from([0x80 + bytes.length, ...bytes])
}

/** Base 128, seven bits per byte; every byte except the last has the highest bit set. */
function base128(number: number): number[] {
  const bytes = [number % 128]
  for (let rest = Math.floor(number / 128); rest > 0; rest = Math.floor(rest / 128)) {
    bytes.unshift(0x80 + (rest % 128))
  }
  return bytes
}
