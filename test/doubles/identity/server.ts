/**
 * What gives a pod temporary credentials, on loopback: the token service of a cloud
 * (AssumeRoleWithWebIdentity), the container credentials endpoint, and the metadata of a node, which no
 * Job may ask. Every credential that it issues is known to a bucket double.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { BucketServer } from '../bucket/server.ts'

export const ROLE_ARN = 'arn:aws:iam::111122223333:role/backup'

export interface IdentityServerOptions {
  store: Pick<BucketServer, 'keys' | 'tokens'>
  /** The token of the pod that is good now. */
  token: string
  lifetimeSeconds?: number
  tls?: { cert: string; key: string }
  now?: () => Date
}

export interface IdentityServer {
  url: string
  /** The token of the pod that is good now; any other is refused. */
  token: string
  lifetimeSeconds: number
  /** Issued session tokens, oldest first. */
  issued: string[]
  /** Paths of all calls, as `<method> <path>`. */
  calls: string[]
  /** Answers instead, while it is set. */
  rejection: { status: number; code: string; message: string } | undefined
  close(): Promise<void>
}

interface Issued {
  id: string
  secret: string
  sessionToken: string
  expiration: string
}

export async function startIdentityServer(options: IdentityServerOptions): Promise<IdentityServer> {
  const { store, tls, now = () => new Date() } = options
  const issue = (): Issued => {
    const number = state.issued.length + 1
    const [id, secret] = [`ASIA${number}`, `secret-of-session-${number}`]
    const sessionToken = `session-token-${number}`
    store.keys.set(id, secret)
    store.tokens.set(id, sessionToken)
    state.issued.push(sessionToken)
    const expiration = new Date(now().getTime() + state.lifetimeSeconds * 1000).toISOString()
    return { id, secret, sessionToken, expiration }
  }
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const { method = '', url = '' } = request
    const body = await text(request)
    state.calls.push(`${method} ${url}`)
    if (method === 'POST') tokenService(response, new URLSearchParams(body), state, issue)
    else if (url === '/v1/credentials') {
      containerEndpoint(response, request.headers.authorization, state, issue)
    } else if (url.startsWith('/latest/')) nodeMetadata(response, url)
    else response.writeHead(404).end()
  }
  const listener = (request: IncomingMessage, response: ServerResponse) => {
    answer(request, response).catch(() => request.socket.destroy())
  }
  const server = tls === undefined ? createServer(listener) : createTlsServer(tls, listener)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const state: IdentityServer = {
    url: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: options.token,
    lifetimeSeconds: options.lifetimeSeconds ?? 3600,
    issued: [],
    calls: [],
    rejection: undefined,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
  return state
}

type State = Pick<IdentityServer, 'token' | 'rejection'>

function tokenService(
  response: ServerResponse,
  form: URLSearchParams,
  { token, rejection }: State,
  issue: () => Issued,
): void {
  const isKnown =
    form.get('Action') === 'AssumeRoleWithWebIdentity' && form.get('RoleArn') === ROLE_ARN
  const refused =
    rejection ??
    (isKnown && form.get('WebIdentityToken') === token
      ? undefined
      : { status: 400, code: 'InvalidIdentityToken', message: 'The token is not valid' })
  response.setHeader('content-type', 'text/xml')
  if (refused !== undefined) {
    const { status, code, message } = refused
    const error = `<Error><Type>Sender</Type><Code>${code}</Code><Message>${message}</Message></Error>`
    response.writeHead(status).end(`<ErrorResponse>${error}</ErrorResponse>`)
    return
  }
  const { id, secret, sessionToken, expiration } = issue()
  const credentials = `<AccessKeyId>${id}</AccessKeyId><SecretAccessKey>${secret}</SecretAccessKey><SessionToken>${sessionToken}</SessionToken><Expiration>${expiration}</Expiration>`
  const user = `<AssumedRoleUser><Arn>${ROLE_ARN}/s</Arn><AssumedRoleId>AROA:s</AssumedRoleId></AssumedRoleUser>`
  const result = `<AssumeRoleWithWebIdentityResult><Credentials>${credentials}</Credentials>${user}</AssumeRoleWithWebIdentityResult>`
  response
    .writeHead(200)
    .end(
      `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">${result}</AssumeRoleWithWebIdentityResponse>`,
    )
}

function containerEndpoint(
  response: ServerResponse,
  authorization: string | undefined,
  { token, rejection }: State,
  issue: () => Issued,
): void {
  const refused =
    rejection ??
    (authorization === token
      ? undefined
      : { status: 401, code: 'Unauthorized', message: 'The token is not valid' })
  response.setHeader('content-type', 'application/json')
  if (refused !== undefined) {
    const { status, code, message } = refused
    response.writeHead(status).end(JSON.stringify({ code, message }))
    return
  }
  const { id, secret, sessionToken, expiration } = issue()
  response.writeHead(200).end(
    JSON.stringify({
      ...{ AccessKeyId: id, SecretAccessKey: secret, Token: sessionToken },
      Expiration: expiration,
    }),
  )
}

/** The role of a node, as a Job would find it if it asked. */
function nodeMetadata(response: ServerResponse, url: string): void {
  if (url.endsWith('/security-credentials/')) response.writeHead(200).end('node-role')
  else response.writeHead(200).end(JSON.stringify({ AccessKeyId: 'node' }))
}
