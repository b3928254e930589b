/** Authentication: AWS Signature Version 4, in a header or in the query of a presigned URL. */
import { createHash, createHmac, timingSafeEqual } from 'node:crypto'
import { S3Error } from './xml.ts'

const TOKEN_HEADER = 'x-amz-security-token'

export interface SignedCall {
  method: string
  /** As it came, path and query. */
  target: string
  headers: Record<string, string | string[] | undefined>
  body: Buffer
}

export interface Trust {
  /** Secret by access key id. */
  keys: ReadonlyMap<string, string>
  /** Session token by access key id, of temporary keys. */
  tokens: ReadonlyMap<string, string>
  /** Session tokens whose time is over. */
  expired: ReadonlySet<string>
  region: string
  now: () => Date
  /** How far the time of a signed call may be from `now`; any if undefined. */
  maxSkewMs: number | undefined
}

interface Signature {
  id: string
  scope: string
  date: string
  signedHeaders: string[]
  signature: string
  payload: string
  /** Session token, where one came. */
  token: string | undefined
  /** Seconds; of a presigned URL. */
  expires?: number
}

/** Throws what S3 answers to a call it does not trust. */
export function checkSignature(
  call: SignedCall,
  { keys, tokens, expired, region, now, maxSkewMs = Infinity }: Trust,
): void {
  const given = signatureOf(call)
  if (given === undefined) throw new S3Error(403, 'AccessDenied', 'Access Denied')
  const secret = keys.get(given.id)
  // A temporary key without its token is unknown to the store.
  if (secret === undefined || (tokens.has(given.id) && given.token === undefined)) {
    const words = 'The AWS Access Key Id you provided does not exist in our records.'
    throw new S3Error(403, 'InvalidAccessKeyId', words)
  }
  const [, signedRegion = ''] = given.scope.split('/')
  if (signedRegion !== region) {
    const words = `The authorization header is malformed; the region '${signedRegion}' is wrong; expecting '${region}'`
    throw new S3Error(400, 'AuthorizationHeaderMalformed', words, { Region: region })
  }
  if (given.expires !== undefined && dateOf(given.date) + given.expires * 1000 < now().getTime()) {
    throw new S3Error(403, 'AccessDenied', 'Request has expired')
  }
  if (given.expires === undefined && Math.abs(dateOf(given.date) - now().getTime()) > maxSkewMs) {
    const words = 'The difference between the request time and the server time is too large.'
    throw new S3Error(403, 'RequestTimeTooSkewed', words)
  }
  const expected = Buffer.from(signed(call, given, secret))
  const actual = Buffer.from(given.signature)
  if (expected.length !== actual.length || !timingSafeEqual(expected, actual)) {
    const words =
      'The request signature we calculated does not match the signature you provided. Check your key and signing method.'
    throw new S3Error(403, 'SignatureDoesNotMatch', words)
  }
  if (given.token !== undefined && expired.has(given.token)) {
    throw new S3Error(400, 'ExpiredToken', 'The provided token has expired.')
  }
  if (given.token !== tokens.get(given.id)) {
    const words = 'The provided token is malformed or otherwise invalid.'
    throw new S3Error(400, 'InvalidToken', words)
  }
  const isHashed = /^[0-9a-f]{64}$/.test(given.payload)
  if (isHashed && given.payload !== sha256(call.body)) {
    const words = "The provided 'x-amz-content-sha256' header does not match what was computed."
    throw new S3Error(400, 'XAmzContentSHA256Mismatch', words)
  }
}

function signatureOf({ target, headers }: SignedCall): Signature | undefined {
  const query = new URL(target, 'http://s3').searchParams
  const payload = String(headers['x-amz-content-sha256'] ?? 'UNSIGNED-PAYLOAD')
  if (query.has('X-Amz-Signature')) {
    const [id = '', ...scope] = (query.get('X-Amz-Credential') ?? '').split('/')
    return {
      id,
      scope: scope.join('/'),
      date: query.get('X-Amz-Date') ?? '',
      signedHeaders: (query.get('X-Amz-SignedHeaders') ?? '').split(';'),
      signature: query.get('X-Amz-Signature') ?? '',
      payload: 'UNSIGNED-PAYLOAD',
      token: query.get('X-Amz-Security-Token') ?? undefined,
      expires: Number(query.get('X-Amz-Expires')),
    }
  }
  const found =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/([^,]+), SignedHeaders=([^,]+), Signature=([0-9a-f]+)$/.exec(
      String(headers['authorization'] ?? ''),
    )
  if (found === null) return undefined
  const [, id = '', scope = '', names = '', signature = ''] = found
  const date = String(headers['x-amz-date'] ?? '')
  const signedHeaders = names.split(';')
  // A header that is not signed could come from anyone.
  const token = signedHeaders.includes(TOKEN_HEADER) ? headers[TOKEN_HEADER] : undefined
  return {
    ...{ id, scope, date, signedHeaders, signature, payload },
    token: token === undefined ? undefined : String(token),
  }
}

function signed(call: SignedCall, given: Signature, secret: string): string {
  const [path = '', query = ''] = call.target.split('?')
  const parameters = query
    .split('&')
    .filter((part) => part !== '' && !part.startsWith('X-Amz-Signature='))
    .map((part) => (part.includes('=') ? part : `${part}=`))
    .sort()
  const headers = given.signedHeaders.map((name) => `${name}:${headerOf(call, name)}\n`)
  const canonical = [
    call.method,
    path,
    parameters.join('&'),
    headers.join(''),
    given.signedHeaders.join(';'),
    given.payload,
  ].join('\n')
  const text = ['AWS4-HMAC-SHA256', given.date, given.scope, sha256(canonical)].join('\n')
  let key: Buffer = Buffer.from(`AWS4${secret}`)
  for (const part of given.scope.split('/')) key = createHmac('sha256', key).update(part).digest()
  return createHmac('sha256', key).update(text).digest('hex')
}

function headerOf({ headers }: SignedCall, name: string): string {
  return String(headers[name] ?? '')
    .trim()
    .replaceAll(/ +/g, ' ')
}

/** `20301231T235959Z` */
function dateOf(text: string): number {
  return Date.parse(text.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
}

function sha256(content: Buffer | string): string {
  return createHash('sha256').update(content).digest('hex')
}
