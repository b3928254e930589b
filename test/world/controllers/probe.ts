/** The readiness probe of a container, as the kubelet runs it. */
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { Running } from './containers.ts'
import type { Container } from './objects.ts'

const TIMEOUT_MS = 1_000

/** Whether the container gives a good answer in time. */
export function answers(
  { httpGet }: NonNullable<Container['readinessProbe']>,
  running: Running,
): Promise<boolean> {
  const { path = '/', port = 80, scheme = 'HTTP' } = httpGet ?? {}
  const here = running.port(Number(port))
  if (here === undefined) return Promise.resolve(false)
  return new Promise((resolve) => {
    const options = { host: '127.0.0.1', port: here, path, timeout: TIMEOUT_MS, agent: false }
    const request =
      scheme === 'HTTPS'
        ? httpsRequest({ ...options, rejectUnauthorized: false })
        : httpRequest(options)
    request.on('response', ({ statusCode = 500 }) => {
      request.destroy()
      resolve(statusCode < 400)
    })
    request.on('timeout', () => request.destroy(new Error('no answer in time')))
    request.on('error', () => resolve(false))
    request.end()
  })
}
