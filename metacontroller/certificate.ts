/** The service's TLS certificate, from files that are replaced before it expires. */
import { readFileSync } from 'node:fs'
import type { Server } from 'node:https'
import type { Timers } from './timers.ts'

export interface CertificateFiles {
  certFile: string
  keyFile: string
}

const REREAD_MS = 60_000

export function readCertificate({ certFile, keyFile }: CertificateFiles) {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
}

/** Serves new connections with the renewed certificate; calling what it returns stops that. */
export function followCertificate(
  server: Pick<Server, 'setSecureContext'>,
  files: CertificateFiles,
  timers: Timers,
): () => void {
  let current = readCertificate(files)
  let cancel = timers.setTimeout(look, REREAD_MS)

  function look(): void {
    try {
      const found = readCertificate(files)
      if (found.cert !== current.cert || found.key !== current.key) {
        server.setSecureContext(found)
        current = found
      }
    } catch {
      // Mid-replacement: certificate and key do not fit yet. The old one serves until they do.
    }
    cancel = timers.setTimeout(look, REREAD_MS)
  }

  return () => {
    cancel()
  }
}
