/** What hook calls and the service prove themselves with: from files, from the service's own Secret, or not at all. */
import type { Server } from 'node:https'
import { followCertificate, readCertificate, type CertificateFiles } from '../certificate.ts'
import { tokenFile } from '../tokens.ts'
import { HookIdentity, type IdentityOptions, type IdentityTools } from './identity.ts'

export interface ProofOptions {
  /** With one token a line. */
  tokenFile?: string
  tls?: CertificateFiles
  /** Where the service makes what no file gives it. */
  identity?: Pick<IdentityOptions, 'secret' | 'hosts' | 'rotation'> & { ownTls: boolean }
  insecureHooks?: boolean
}

export interface Proof {
  tokens(): string[]
  /** What signs Jobs. */
  jobKeys(): string[]
  tls?: { cert: string; key: string }
  /** Keeps all of it up to date; calling what it returns stops that. */
  follow(server: Pick<Server, 'setSecureContext'>): () => void
}

export async function proofOf(options: ProofOptions, tools: IdentityTools): Promise<Proof> {
  const { identity, tls: files } = options
  const own = identity === undefined ? undefined : await ownIdentity(options, identity, tools)
  const tokens = tokensOf(options, own, tools)
  const tls = files === undefined ? own?.certificate : readCertificate(files)
  return {
    tokens,
    jobKeys: () => own?.jobKeys() ?? tokens(),
    ...(tls !== undefined && { tls }),
    follow: (server) => {
      const stops = [
        ...(files === undefined ? [] : [followCertificate(server, files, tools.timers)]),
        ...(own === undefined ? [] : [own.follow(server)]),
      ]
      return () => {
        for (const stop of stops) stop()
      }
    },
  }
}

async function ownIdentity(
  { tokenFile: file, tls }: ProofOptions,
  { ownTls, ...identity }: NonNullable<ProofOptions['identity']>,
  tools: IdentityTools,
): Promise<HookIdentity> {
  const made = new HookIdentity(
    { ...identity, ownToken: file === undefined, ownTls: ownTls && tls === undefined },
    tools,
  )
  await made.load()
  return made
}

/** No tokens means that none is asked for, so that must be somebody's wish. */
function tokensOf(
  { tokenFile: file, insecureHooks }: ProofOptions,
  own: HookIdentity | undefined,
  { now, log }: IdentityTools,
): () => string[] {
  if (file !== undefined) return tokenFile(file, now)
  if (own !== undefined) return () => own.tokens()
  if (insecureHooks !== true) {
    throw new Error(
      'no HOOK_TOKEN_FILE and no HOOK_SECRET; --insecure-hooks serves without a token',
    )
  }
  log.warn({}, 'hooks take calls without a token')
  return () => []
}
