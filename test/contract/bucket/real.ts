/** A real S3 server, versitygw, on loopback and in a folder of its own, ended by its id. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { freePort, portAnswers, startProcess, stopProcess, waitFor } from '../../cluster/process.ts'

export const KEYS = { accessKeyId: 'id', secretAccessKey: 'secretsecret' }

/** PEM. */
interface Certificate {
  cert: string
  key: string
}

/** With the bucket `backups`; over TLS where it is given a certificate. */
export async function realStore(bin: string, root: string, tls?: Certificate) {
  mkdirSync(join(root, 'data', 'backups'), { recursive: true })
  const port = await freePort()
  const certificate = Object.entries(tls ?? {}).flatMap(([option, pem]: [string, string]) => {
    const file = join(root, option)
    writeFileSync(file, pem, { mode: 0o600 })
    return [`--${option}`, file]
  })
  const spec = {
    name: 's3',
    command: bin,
    args: ['--quiet', '--port', `127.0.0.1:${port}`, ...certificate, 'posix', join(root, 'data')],
    log: join(root, 'log'),
    env: { ROOT_ACCESS_KEY_ID: KEYS.accessKeyId, ROOT_SECRET_ACCESS_KEY: KEYS.secretAccessKey },
  }
  const record = startProcess(spec, root)
  await waitFor('the S3 server', () => portAnswers('127.0.0.1', port), { process: record })
  return {
    endpoint: `${tls === undefined ? 'http' : 'https'}://127.0.0.1:${port}`,
    keys: KEYS,
    close: () => stopProcess(record),
  }
}
