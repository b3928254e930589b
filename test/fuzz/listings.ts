/** Listings of a bucket: pages as stores give them, and as none should, under a purge. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import fc from 'fast-check'
import { Rejected, StorageError } from '../../crds/contract/errors.ts'
import { Owner } from '../../jobs/backup/owner.ts'
import { purge } from '../../jobs/backup/purge.ts'
import { Bucket } from '../../jobs/clients/s3/bucket.ts'
import { jobLog } from '../../jobs/log.ts'
import { element, valuesOf, xml, type S3Answer } from '../doubles/bucket/xml.ts'
import { instantClock } from '../jobs/job-world.ts'
import { damaged, damages, type Damage } from './mangle.ts'
import { Broken } from './promises.ts'
import type { Check, Subject } from './subject.ts'
import { resourceOf } from './specs.ts'
import { awkwardText, valueOf } from './value.ts'
import { FuzzedWorld } from './world.ts'

interface Page {
  keys: string[]
  isTruncated: boolean
  /** Absent: a store that forgets it. */
  token?: string
}

interface ListingCase {
  owner: unknown
  damages: Damage[]
  /** Whether the folder is that of the backup that is purged. */
  isOurs: boolean
  /** Pages of objects, in the order in which they are asked for; the last one again and again. */
  pages: Page[]
  uploads: Page[]
  deletes: 'all' | 'denied'
}

const FOLDER = 'p/b/'
const UID = 'uid-of-the-backup'
const PAGES = 5
/** A purge that asks so often for so few keys never ends. */
const MAX_CALLS = 200

const key = fc.oneof(
  awkwardText().map((text) => FOLDER + text),
  fc.constantFrom(`${FOLDER}owner.json`, `${FOLDER}manifest.json`, 'p/b2/x', 'p/', ''),
  awkwardText(),
)
const page: fc.Arbitrary<Page> = fc.record(
  { keys: fc.array(key, { maxLength: 4 }), isTruncated: fc.boolean(), token: awkwardText() },
  { requiredKeys: ['keys', 'isTruncated'], noNullPrototype: true },
)
const pages = fc.array(page, { minLength: 1, maxLength: PAGES })

export const listings: Subject<ListingCase> = {
  name: 'listings',
  title: 'a purge ends whatever a store lists, and deletes nothing outside its own folder',
  cases: fc.record(
    {
      owner: valueOf(Owner),
      damages: fc.oneof(fc.constant<Damage[]>([]), damages),
      isOurs: fc.oneof({ arbitrary: fc.constant(true), weight: 4 }, fc.constant(false)),
      pages,
      uploads: pages,
      deletes: fc.constantFrom('all', 'denied'),
    },
    { noNullPrototype: true },
  ),
  open,
  inWorld,
}

async function open(): Promise<Check<ListingCase>> {
  const store = await startListing()
  const bucket = new Bucket({
    target: { bucket: 'backups', region: 'us-east-1', endpoint: store.url, forcePathStyle: true },
    credentials: async () => ({ accessKeyId: 'id', secretAccessKey: 'secretsecret' }),
    time: instantClock(),
    log: jobLog({ LOG_LEVEL: 'FATAL' }),
    attempts: 1,
  })
  return {
    async holds(one) {
      store.show(one)
      try {
        const { done } = await purge(
          bucket,
          { prefix: 'p', name: 'b', uid: UID },
          { now: new Date() },
        )
        if (done) store.checkDone()
        return done ? 'done' : 'incomplete'
      } catch (error) {
        const isExpected = error instanceof StorageError || error instanceof Rejected
        if (!isExpected || !error.message.includes('s3://backups')) throw error
        return 'refused'
      } finally {
        store.check()
      }
    },
    async close() {
      bucket.close()
      store.close()
    },
  }
}

/** Where a VecBackup that has ended is deleted, and the service empties its folder. */
async function inWorld(): Promise<Check<ListingCase>> {
  const fuzzed = await FuzzedWorld.open()
  const { client } = fuzzed.world
  const store = await startListing()
  return {
    async holds(one) {
      const kind = await fuzzed.holds({
        ...{ resource: resourceOf('VecBackup'), name: 'b', isPurged: true },
        async spec(namespace) {
          const data = { CLOUD_ACCESS_KEY_ID: 'aWQ=', CLOUD_SECRET_ACCESS_KEY: 'a2V5' }
          const metadata = { name: 'bucket', namespace }
          await fuzzed.world.apply({ apiVersion: 'v1', kind: 'Secret', metadata, data })
          return specAt(store.url)
        },
        async meanwhile(reference) {
          const found = await client.get(reference)
          store.show(one, found?.metadata.uid)
          // It began and it ended, so there may be something in the bucket.
          const startTime = found?.metadata.creationTimestamp
          const status = { phase: 'Failed', startTime, completionTime: startTime }
          await client.patch(reference, { status }, { subresource: 'status' })
        },
      })
      store.check({ isOneCall: false })
      return kind
    },
    askedAgain: () => fuzzed.askedAgain,
    async close() {
      store.close()
      await fuzzed.close()
    },
  }
}

/** Of a backup of a cluster that is not there: no Job of it ever runs. */
function specAt(endpoint: string): object {
  const s3 = { bucket: 'backups', prefix: 'p', endpoint, forcePathStyle: true }
  return {
    clusterRef: { name: 'absent' },
    storage: { s3: { ...s3, credentialsSecretRef: { name: 'bucket' } } },
  }
}

/** A store that answers what the case says. */
async function startListing() {
  let current: ListingCase
  let owner = UID
  let looks = { pages: 0, uploads: 0, calls: 0 }
  let deleted: string[] = []
  let denied: string[] = []
  const isOwned = () => current.isOurs && current.damages.length === 0
  const answer = (method: string, path: string, body: string): S3Answer => {
    looks.calls += 1
    // A key may hold dots that a URL would take for steps.
    const [pathname = '', search] = path.split('?')
    const query = new URLSearchParams(search)
    if (looks.calls > MAX_CALLS) return xml(element('Error', ''), 400)
    if (method === 'GET' && query.has('list-type')) {
      return listed(current.pages[Math.min(looks.pages++, current.pages.length - 1)])
    }
    if (method === 'GET' && query.has('uploads')) {
      return uploaded(current.uploads[Math.min(looks.uploads++, current.uploads.length - 1)])
    }
    if (method === 'GET') return { status: 200, body: JSON.stringify(ownerOf(current, owner)) }
    if (method === 'DELETE') deleted.push(decodeURIComponent(pathname.slice('/backups/'.length)))
    else deleted.push(...valuesOf(body, 'Key'))
    if (current.deletes === 'denied') denied.push(...valuesOf(body, 'Key'))
    return deletion(current, valuesOf(body, 'Key'))
  }
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const {
        status,
        headers,
        body: said,
      } = answer(request.method ?? '', request.url ?? '', String(body))
      response.writeHead(status, headers).end(said)
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    show(one: ListingCase, uid = UID) {
      current = one
      owner = uid
      looks = { pages: 0, uploads: 0, calls: 0 }
      deleted = []
      denied = []
    },
    checkDone() {
      const [left] = denied
      if (left !== undefined) throw new Broken(`done, and ${JSON.stringify(left)} is still there`)
    },
    check({ isOneCall = true } = {}) {
      if (isOneCall && looks.calls > MAX_CALLS) throw new Broken('it does not end')
      const stray = deleted.find((name) => !name.startsWith(FOLDER))
      if (stray !== undefined) throw new Broken(`it deletes ${JSON.stringify(stray)}`)
      if (deleted.length > 0 && !isOwned() && ownerUid(current, owner) !== owner)
        throw new Broken('it is not its owner')
    },
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function ownerOf({ owner, damages: all, isOurs }: ListingCase, uid: string): unknown {
  return damaged(isOurs ? { ...(owner as object), uid } : owner, all)
}

function ownerUid(current: ListingCase, uid: string): unknown {
  return (ownerOf(current, uid) as { uid?: unknown } | null)?.uid
}

function listed({ keys, isTruncated, token }: Page = NONE): S3Answer {
  const contents = keys.map((name) => element('Contents', element('Key', name) + SIZE, true))
  const next = token === undefined ? '' : element('NextContinuationToken', token)
  const all = element('IsTruncated', String(isTruncated)) + next + contents.join('')
  return xml(element('ListBucketResult', all, true))
}

function uploaded({ keys, isTruncated, token }: Page = NONE): S3Answer {
  const all = keys.map((name) =>
    element('Upload', element('Key', name) + element('UploadId', 'u'), true),
  )
  const next = token === undefined ? '' : element('NextKeyMarker', token)
  const inner = element('IsTruncated', String(isTruncated)) + next + all.join('')
  return xml(element('ListMultipartUploadsResult', inner, true))
}

const NONE: Page = { keys: [], isTruncated: false }
const SIZE = element('Size', '1')

function deletion({ deletes }: ListingCase, keys: string[]): S3Answer {
  if (deletes !== 'denied') return xml(element('DeleteResult', ''))
  const errors = keys.map((name) =>
    element('Error', element('Key', name) + element('Code', 'AccessDenied'), true),
  )
  return xml(element('DeleteResult', errors.join(''), true))
}
