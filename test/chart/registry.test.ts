/** The engine's chart from an OCI registry that needs credentials and has a certificate of its own, with the real helm. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { Helm } from '../../jobs/clients/helm.ts'
import { jobLog } from '../../jobs/log.ts'
import { newAuthority, newCertificate } from '../../metacontroller/identity/certificates.ts'
import { findHelm, NO_HELM, runHelm } from './helm.ts'
import { QUICK, startTarget } from './target.ts'

const VERSION = '1.18.3'
const CONFIG_MAP = `apiVersion: v1
kind: ConfigMap
metadata: { name: from-registry }
`
const USER = 'robot:password'

const helm = findHelm() ?? ''
const skip = helm === '' && NO_HELM

/** The API in memory does not take what helm stores for a release. */
const DRY_RUN = `#!/bin/sh\nexec ${helm} "$@" ${QUICK.join(' ')} --dry-run=server\n`

t.test('helm pulls a chart with the pull Secret and the CA', { skip }, async (t) => {
  const registry = await startRegistry(t, await packagedChart(t))
  const target = await startTarget(helm)
  t.teardown(() => target.close())
  const upgrade = ({ chartCa = registry.ca, user = USER } = {}) => {
    const auths = { [registry.host]: { auth: Buffer.from(user).toString('base64') } }
    const folder = t.testdir({ 'config.json': JSON.stringify({ auths }), helm: DRY_RUN })
    const [command, config] = [join(folder, 'helm'), join(folder, 'config.json')]
    chmodSync(command, 0o755)
    const env = { ...process.env, KUBECONFIG: target.kubeconfig, HELM_REGISTRY_CONFIG: config }
    return new Helm(jobLog({ LOG_LEVEL: 'ERROR' }), { command, env, chartCa }).upgrade({
      ...{ release: 'vec-a', chart: 'qdrant', version: VERSION, namespace: 'default', values: {} },
      repository: `oci://${registry.host}/charts/`,
    })
  }
  await t.rejects(upgrade({ chartCa: '' }), { code: 'HelmError', message: /certificate/ })
  await t.rejects(upgrade({ user: 'robot:wrong' }), { code: 'HelmError', message: /401/ })
  t.match(await upgrade(), 'metadata: { name: from-registry }')
})

/** A chart with one object, as `helm package` writes it. */
async function packagedChart(t: Test): Promise<Buffer> {
  const folder = t.testdir({
    chart: {
      'Chart.yaml': `apiVersion: v2\nname: qdrant\nversion: ${VERSION}\n`,
      templates: { 'object.yaml': CONFIG_MAP },
    },
  })
  await runHelm(helm, ['package', join(folder, 'chart'), '--destination', folder])
  return readFileSync(join(folder, `qdrant-${VERSION}.tgz`))
}

/** The reading half of an OCI registry with one chart, for one user. */
async function startRegistry(t: Test, chart: Buffer): Promise<{ host: string; ca: string }> {
  const blobs = new Map<string, Buffer>()
  const store = (mediaType: string, content: Buffer) => {
    const digest = `sha256:${createHash('sha256').update(content).digest('hex')}`
    blobs.set(digest, content)
    return { mediaType, digest, size: content.length }
  }
  const metadata = JSON.stringify({ name: 'qdrant', version: VERSION, apiVersion: 'v2' })
  const manifest = {
    schemaVersion: 2,
    mediaType: MANIFEST,
    config: store('application/vnd.cncf.helm.config.v1+json', Buffer.from(metadata)),
    layers: [store('application/vnd.cncf.helm.chart.content.v1.tar+gzip', chart)],
  }
  const { digest } = store(MANIFEST, Buffer.from(JSON.stringify(manifest)))
  const expected = `Basic ${Buffer.from(USER).toString('base64')}`
  const now = new Date()
  const authority = newAuthority(now, 1)
  const server = createServer(
    newCertificate(authority, ['localhost'], now, 1),
    ({ url = '', method, headers }, response) => {
      if (headers.authorization !== expected) {
        response.writeHead(401, { 'www-authenticate': 'Basic realm="charts"' }).end()
        return
      }
      const [, kind, name = ''] =
        /^[/]v2[/]charts[/]qdrant[/](manifests|blobs)[/](.+)$/.exec(url) ?? []
      const id = name === VERSION ? digest : name
      const content = blobs.get(id)
      if (url === '/v2/') response.end('{}')
      else if (content === undefined) response.writeHead(404).end('{}')
      else {
        const type = kind === 'manifests' ? MANIFEST : 'application/octet-stream'
        const fields = { 'content-type': type, 'docker-content-digest': id }
        response.writeHead(200, { ...fields, 'content-length': content.length })
        response.end(method === 'HEAD' ? undefined : content)
      }
    },
  ).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  return { host: `localhost:${(server.address() as AddressInfo).port}`, ca: authority.cert }
}

const MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
