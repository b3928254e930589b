/**
 * Attacks on the purge, which the service does itself: a tenant names a store of their own, forges the report that
 * a backup has started, and deletes it.
 */
import { once } from 'node:events'
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from 'node:http'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { resource } from '../builders.ts'
import type { Attack } from './attack.ts'
import { callHook } from './calls.ts'
import { endless, type Ground } from './ground.ts'
import { TOKEN } from './healthy.ts'

const BACKUPS = 24
/** Hooks after which an attack has had its effect. */
const ROUNDS = 12
/** Each has a backup that is deleted. */
export const TENANTS = Array.from({ length: BACKUPS }, (_, at) => `tenant-${at}`)

const STORES: Record<string, RequestListener> = {
  'an owner.json without end': (request, response) => {
    if (isOwner(request)) endless(response, Buffer.alloc(65_536, ' '))
    else response.writeHead(404).end()
  },
  'an owner.json of 60 MB': (request, response) => {
    if (isOwner(request)) response.end(`[${'[],'.repeat(20_000_000)}[]]`)
    else response.writeHead(404).end()
  },
  'listings without end': (request, response) => {
    if (isOwner(request)) response.end(ownerOf(request.url ?? ''))
    else if (isListing(request)) endlessPages(request, response, 1000)
    else response.writeHead(404).end()
  },
  'pages of as many keys as fit': (request, response) => {
    if (isOwner(request)) response.end(ownerOf(request.url ?? ''))
    else if (isListing(request)) endlessPages(request, response, 15_000)
    else response.writeHead(404).end()
  },
}

export const STORE_ATTACKS: Attack[] = Object.entries(STORES).map(([title, answer]) => ({
  title: `${BACKUPS} purges at once of stores with ${title}`,
  async begin(ground) {
    addTenants(ground, TENANTS)
    const { url, paths, close } = await hostileStore(answer)
    const problems: string[] = []
    const name = `purged-${ground.number()}`
    for (let round = 0; round < ROUNDS; round += 1) {
      const calls = TENANTS.map((namespace) => finalize(ground, { namespace, name }, url))
      const answers = await Promise.all(calls)
      if (answers.some(({ finalized }) => finalized === true)) problems.push('a purge has ended')
    }
    if (paths.length === 0) problems.push('the store was not called')
    return { problems, end: close }
  },
}))

/** Namespaces with credentials for a store. */
export function addTenants({ api: { resources } }: Ground, namespaces: string[]): void {
  for (const namespace of namespaces) {
    resources.store.put(resources.kinds.of('v1', 'Namespace'), {
      ...{ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    })
    resources.store.put(resources.kinds.of('v1', 'Secret'), {
      ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's3', namespace } },
      data: {
        CLOUD_ACCESS_KEY_ID: Buffer.from('id').toString('base64'),
        CLOUD_SECRET_ACCESS_KEY: Buffer.from('secretsecret').toString('base64'),
      },
    })
  }
}

/** A store that answers what an attack wants, and what it was asked. */
export async function hostileStore(answer: RequestListener) {
  const paths: string[] = []
  const server = createServer((request, response) => {
    paths.push(request.url ?? '')
    answer(request, response)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const close = async () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${port}`, paths, close }
}

export async function finalize(
  ground: Ground,
  backup: NamespacedName,
  endpoint: string,
): Promise<Answer> {
  const body = finalizeRequest(backup, endpoint)
  const { status, text } = await callHook(`${ground.url}/vecbackups/finalize`, body, TOKEN)
  if (status !== 200) throw new Error(`${status} ${text}`)
  return JSON.parse(text) as Answer
}

/** A deleted VecBackup whose report says that it has started. */
function finalizeRequest({ namespace, name }: NamespacedName, endpoint: string) {
  const uid = `uid-${name}`
  const at = new Date().toISOString()
  const report = {
    ...{ uid, verb: 'run', run: 1, job: 'j', runner: 'p', plan: 'h' },
    ...{ state: 'Started', at, startedAt: at },
  }
  const s3 = {
    ...{ bucket: 'backups', region: 'us-east-1', endpoint, forcePathStyle: true, prefix: '' },
    credentialsSecretRef: {
      name: 's3',
      accessKeyIdKey: 'CLOUD_ACCESS_KEY_ID',
      secretAccessKeyKey: 'CLOUD_SECRET_ACCESS_KEY',
    },
  }
  const spec = { clusterRef: { name: 'a' }, storage: { s3 }, method: 'Node', parallelism: 1 }
  const annotations = { [ANNOTATIONS.progress]: JSON.stringify(report) }
  const parent = resource('VecBackup', spec, {
    namespace,
    name,
    annotations,
    deletionTimestamp: at,
  })
  return JSON.stringify({ parent, children: {}, related: {}, finalizing: true })
}

interface NamespacedName {
  namespace: string
  name: string
}

interface Answer {
  finalized?: boolean
  status: { conditions?: { type: string; reason: string; message: string }[] }
}

/** The uid that is expected in owner.json: that of the backup whose folder is read. */
export function ownerOf(path: string): string {
  const [, name = ''] = /\/backups\/([^/]+)\/owner\.json/.exec(path) ?? []
  return JSON.stringify({
    ...{ uid: `uid-${name}`, namespace: 'ns', name, startedAt: '2026-01-01T00:00:00Z' },
    ...{ cluster: { namespace: 'ns', name: 'a' }, collections: [] },
  })
}

const isOwner = ({ url = '' }: IncomingMessage) => url.includes('/owner.json')
const isListing = ({ url = '' }: IncomingMessage) => url.includes('list-type=2')

/** A page of keys, of which each is the owner of an inner folder, and then another one without end. */
function endlessPages({ url = '' }: IncomingMessage, response: ServerResponse, keys: number): void {
  const { searchParams } = new URL(url, 'http://store')
  const prefix = searchParams.get('prefix') ?? ''
  // The records of restores are asked for one by one.
  if (prefix.includes('/readers/')) {
    response.end('<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>')
    return
  }
  const page = Number((searchParams.get('continuation-token') ?? '0').split('-', 1)[0])
  const contents = Array.from(
    { length: keys },
    (_, at) =>
      `<Contents><Key>${prefix}${page}-${at}-${'x'.repeat(180)}/owner.json</Key><Size>1</Size></Contents>`,
  ).join('')
  const token = `${page + 1}-${'t'.repeat(1000)}`
  response.end(
    `<ListBucketResult>${contents}<IsTruncated>true</IsTruncated><NextContinuationToken>${token}</NextContinuationToken></ListBucketResult>`,
  )
}
