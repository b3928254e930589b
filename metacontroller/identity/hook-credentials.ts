/**
 * Loads the credentials of hook calls and of the service: from files, from the Secret of the
 * service, or none. Rereads them while the service runs.
 */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import type { Timers } from '../runtime.ts'
import { HookIdentity, type IdentityDependencies, type IdentityOptions } from './identity.ts'

export interface HookCredentialsOptions {
  /** File with one token per line. */
  tokenFile?: string
  tls?: CertificateFiles
  /** Where the service stores the credentials that it creates itself, if no file provides them. */
  identity?: Pick<IdentityOptions, 'secret' | 'hosts' | 'rotation'> & { ownTls: boolean }
  insecureHooks?: boolean
}

export interface HookCredentials {
  tokens(): string[]
  /** Keys that sign Jobs. */
  jobKeys(): string[]
  tls?: { cert: string; key: string }
  /** Keeps all credentials up to date, also those of Metacontroller; the returned function stops it. */
  watch(server: Pick<Server, 'setSecureContext'>): () => void
  /** Only renews the certificate of the server: nothing else calls a replica that waits. */
  watchCertificate(server: Pick<Server, 'setSecureContext'>): () => void
}

export async function loadHookCredentials(
  options: HookCredentialsOptions,
  dependencies: IdentityDependencies,
): Promise<HookCredentials> {
  const { identity, tls: files } = options
  const hookIdentity =
    identity === undefined ? undefined : await loadIdentity(options, identity, dependencies)
  const tokens = tokenSource(options, hookIdentity, dependencies)
  const tls = files === undefined ? hookIdentity?.certificate : readCertificate(files)
  const watchFiles = (server: Pick<Server, 'setSecureContext'>) =>
    files && watchCertificate(server, files, dependencies.timers)
  return {
    tokens,
    jobKeys: () => hookIdentity?.jobKeys() ?? tokens(),
    ...(tls !== undefined && { tls }),
    watch: (server) => {
      const stops = [watchFiles(server), hookIdentity?.watch(server)]
      return () => {
        for (const stop of stops) stop?.()
      }
    },
    watchCertificate: (server) =>
      watchFiles(server) ?? hookIdentity?.watchCertificate(server) ?? (() => undefined),
  }
}

async function loadIdentity(
  { tokenFile: tokenPath, tls }: HookCredentialsOptions,
  { ownTls, ...identity }: NonNullable<HookCredentialsOptions['identity']>,
  dependencies: IdentityDependencies,
): Promise<HookIdentity> {
  const loaded = new HookIdentity(
    { ...identity, ownToken: tokenPath === undefined, ownTls: ownTls && tls === undefined },
    dependencies,
  )
  await loaded.load()
  return loaded
}

/** An empty list disables authentication, so that requires an explicit flag. */
function tokenSource(
  { tokenFile: tokenPath, insecureHooks }: HookCredentialsOptions,
  hookIdentity: HookIdentity | undefined,
  { now, log }: IdentityDependencies,
): () => string[] {
  if (tokenPath !== undefined) return tokenFileReader(tokenPath, now)
  if (hookIdentity !== undefined) return () => hookIdentity.tokens()
  if (insecureHooks !== true) {
    throw new Error(
      'no HOOK_TOKEN_FILE and no HOOK_SECRET; --insecure-hooks accepts calls without a token',
    )
  }
  log.warn({}, 'hooks accept calls without a token')
  return () => []
}

/** Maximum age of the tokens in memory, in milliseconds. */
const TOKEN_REREAD_MS = 5_000

/**
 * Reads the file immediately, so that a service without a token fails to start, and again
 * periodically. Never returns an empty list: the server would then accept calls without a token.
 */
export function tokenFileReader(path: string, now: () => Date): () => string[] {
  let tokens = readTokens(path)
  let readAt = now().getTime()
  return () => {
    if (now().getTime() - readAt < TOKEN_REREAD_MS) return tokens
    readAt = now().getTime()
    try {
      tokens = readTokens(path)
    } catch {
      // The file is being replaced or was emptied by mistake; the previous tokens stay valid.
    }
    return tokens
  }
}

function readTokens(path: string): string[] {
  const tokens = readFileSync(path, 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (tokens.length === 0) throw new Error(`HOOK_TOKEN_FILE: ${path} contains no token`)
  return tokens
}

export interface CertificateFiles {
  certFile: string
  keyFile: string
}

const CERTIFICATE_REREAD_MS = 60_000

export function readCertificate({ certFile, keyFile }: CertificateFiles) {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
}

/** Serves new connections with the renewed certificate; the returned function stops it. */
export function watchCertificate(
  server: Pick<Server, 'setSecureContext'>,
  files: CertificateFiles,
  timers: Timers,
): () => void {
  let current = readCertificate(files)
  let cancel = timers.setTimeout(reload, CERTIFICATE_REREAD_MS)

  function reload(): void {
    try {
      const latest = readCertificate(files)
      if (latest.cert !== current.cert || latest.key !== current.key) {
        server.setSecureContext(latest)
        current = latest
      }
    } catch {
      // The files are being replaced and do not match yet; serve the old certificate until they do.
    }
    cancel = timers.setTimeout(reload, CERTIFICATE_REREAD_MS)
  }

  return () => {
    cancel()
  }
}
