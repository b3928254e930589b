/** What hook calls and the service prove themselves with: from files, from the service's own Secret, or not at all. */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import type { Timers } from '../timers.ts'
import { HookIdentity, type IdentityDependencies, type IdentityOptions } from './identity.ts'

export interface HookCredentialsOptions {
  /** With one token a line. */
  tokenFile?: string
  tls?: CertificateFiles
  /** Where the service makes what no file gives it. */
  identity?: Pick<IdentityOptions, 'secret' | 'hosts' | 'rotation'> & { ownTls: boolean }
  insecureHooks?: boolean
}

export interface HookCredentials {
  tokens(): string[]
  /** What signs Jobs. */
  jobKeys(): string[]
  tls?: { cert: string; key: string }
  /** Keeps all of it up to date; calling what it returns stops that. */
  watch(server: Pick<Server, 'setSecureContext'>): () => void
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
  return {
    tokens,
    jobKeys: () => hookIdentity?.jobKeys() ?? tokens(),
    ...(tls !== undefined && { tls }),
    watch: (server) => {
      const stops = [
        ...(files === undefined ? [] : [watchCertificate(server, files, dependencies.timers)]),
        ...(hookIdentity === undefined ? [] : [hookIdentity.watch(server)]),
      ]
      return () => {
        for (const stop of stops) stop()
      }
    },
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

/** No tokens means that none is asked for, so that must be somebody's wish. */
function tokenSource(
  { tokenFile: tokenPath, insecureHooks }: HookCredentialsOptions,
  hookIdentity: HookIdentity | undefined,
  { now, log }: IdentityDependencies,
): () => string[] {
  if (tokenPath !== undefined) return tokenFileReader(tokenPath, now)
  if (hookIdentity !== undefined) return () => hookIdentity.tokens()
  if (insecureHooks !== true) {
    throw new Error(
      'no HOOK_TOKEN_FILE and no HOOK_SECRET; --insecure-hooks serves without a token',
    )
  }
  log.warn({}, 'hooks take calls without a token')
  return () => []
}

/** How old what was read may be, in milliseconds. */
const TOKEN_REREAD_MS = 5_000

/**
 * Reads the file now, so that a service without a token does not start, and again from time to time.
 * Never answers without a token: to the server that would mean that none is needed.
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
      // Mid-replacement, or emptied by mistake: the tokens that were good a moment ago still are.
    }
    return tokens
  }
}

function readTokens(path: string): string[] {
  const tokens = readFileSync(path, 'utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
  if (tokens.length === 0) throw new Error(`HOOK_TOKEN_FILE: ${path} holds no token`)
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

/** Serves new connections with the renewed certificate; calling what it returns stops that. */
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
      // Mid-replacement: certificate and key do not fit yet. The old one serves until they do.
    }
    cancel = timers.setTimeout(reload, CERTIFICATE_REREAD_MS)
  }

  return () => {
    cancel()
  }
}
