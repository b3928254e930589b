/** A healthy request, as Metacontroller sends it, for every client. */
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { cluster } from '../builders.ts'
import { ONE } from '../metacontroller/certificates.ts'

export const TOKEN = 'attacks'

const HEALTHY = {
  path: '/vecclusters/customize',
  method: 'POST',
  headers: { 'content-type': 'application/json', authorization: `Bearer ${TOKEN}` },
  body: JSON.stringify({ parent: cluster() }),
}

/** From now on, `fetch` of this thread accepts the certificate of the service. */
export function trustService(): void {
  setDefaultCACertificates([...getCACertificates('default'), ONE.cert])
}

/** Resolves with the status code, or with the error if there is no answer. */
export async function requestHealthy(url: string): Promise<number | string> {
  try {
    const response = await fetch(url + HEALTHY.path, HEALTHY)
    await response.text()
    return response.status
  } catch (error) {
    return String(error)
  }
}
