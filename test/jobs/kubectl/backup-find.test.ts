/** `backup find`: what a bucket has, whether or not it is a backup. */
import t from 'tap'
import type { Test } from 'tap'
import { parse } from 'yaml'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { matchWhole } from '../../match-whole.ts'
import { KEYS } from '../backup/backup-world.ts'
import { backupFixture } from '../backup/fixture.ts'
import { startBucket } from '../engine-and-bucket.ts'
import { runCommand } from './cli-user.ts'

interface Found {
  backups: { location: string }[]
  otherObjects?: object
}

/** A bucket with these objects; text is JSON already. */
async function bucketWith(t: Test, objects: Record<string, object | string>) {
  const bucket = await startBucket(t, () => '')
  const put = (key: string, content: object | string) =>
    bucket
      .store()
      .put(key, Buffer.from(typeof content === 'string' ? content : JSON.stringify(content)))
  for (const [key, content] of Object.entries(objects)) put(key, content)
  const find = (target: string, ...flags: string[]) =>
    runCommand(
      ['backup', 'find', target, '--endpoint', bucket.s3.url, '--path-style', ...flags],
      KEYS,
    )
  return { ...bucket, put, find }
}

function ownerOf(name: string, uid = 'u') {
  const cluster = { namespace: 'ns', name: 'c' }
  return {
    uid,
    namespace: 'ns',
    name,
    cluster,
    startedAt: '2030-01-01T00:00:00Z',
    collections: ['c'],
  }
}

const FOREIGN = {
  backupName: 'theirs',
  cluster: { namespace: 'old', name: 'docs' },
  nodeCount: 1,
  createdAt: '2020-01-01T00:00:00.000Z',
  collections: [
    {
      name: 'docs',
      snapshots: [{ nodeIndex: 0, key: 'nightly/theirs/x', snapshotName: 'x', sizeBytes: 7 }],
    },
  ],
}

t.test(
  'a backup of this operator, one that failed in part, and one of another program',
  async (t) => {
    const { world, s3, store, manifest } = await backupFixture(t, {
      nodes: 1,
      collections: ['docs', 'gone'],
    })
    await world.run()
    store().put('nightly/theirs/manifest.json', Buffer.from(JSON.stringify(FOREIGN)))
    store().put('nightly/theirs/x', Buffer.from('7 bytes'))
    const before = s3.calls.length
    const find = (...flags: string[]) =>
      runCommand(
        ['backup', 'find', 's3://backups/nightly', '--endpoint', s3.url, '--path-style', ...flags],
        KEYS,
      )
    const { code, out, err } = await find('-o', 'json')
    t.equal(code, EXIT_CODES.success, err)
    const keys = store().keys()
    const bytesOf = (folder: string) =>
      keys
        .filter((key) => key.startsWith(folder))
        .reduce((sum, key) => sum + (store().objects.get(key)?.body.length ?? 0), 0)
    const { createdAt, uid, collections } = manifest()
    t.strictSame(JSON.parse(out), {
      backups: [
        {
          location: 's3://backups/nightly/b',
          objects: keys.length - 2,
          bytes: bytesOf('nightly/b/'),
          backup: 'b',
          cluster: 'ns/a',
          createdAt,
          owner: 'ns/b',
          uid,
          nodes: 1,
          collections: '1/2',
          engineVersion: '1.18.3',
          method: 'Node',
          points: collections[0]?.pointsCount ?? 0,
          complete: false,
          unreadable: false,
          problem: 'collections that failed or are missing: gone',
        },
        {
          location: 's3://backups/nightly/theirs',
          objects: 2,
          bytes: bytesOf('nightly/theirs/'),
          backup: 'theirs',
          cluster: 'old/docs',
          createdAt: FOREIGN.createdAt,
          nodes: 1,
          collections: '1/1',
          method: 'Node',
          complete: true,
          unreadable: false,
        },
      ],
    })
    t.strictSame(parse((await find('-o', 'yaml')).out), JSON.parse(out))
    const operations = new Set(s3.calls.slice(before).map(({ operation }) => operation))
    t.strictSame([...operations].toSorted(), ['GetObject', 'ListObjectsV2'], 'it only reads')

    t.equal((await find('-o', 'name')).out, 's3://backups/nightly/b\ns3://backups/nightly/theirs\n')
    const table = (await find()).out
    t.match(table, /^LOCATION +CLUSTER +AGE +SIZE +COLLECTIONS +POINTS +COMPLETE +OWNER +PROBLEM\n/)
    t.match(table, /\ns3:\/\/backups\/nightly\/theirs +old\/docs .* 1\/1 +- +yes +-\n/)
    t.match(
      (await find('-o', 'wide')).out,
      / OWNER +TIME +OBJECTS +METHOD +NODES +ENGINE +PROBLEM\n/,
    )
  },
)

t.test('objects that belong to no backup are counted, page by page', async (t) => {
  const { store, find } = await bucketWith(t, {
    'nightly/a/owner.json': ownerOf('a'),
    'nightly/a/c/node-0/1.snapshot': 'xyz',
    'nightly/a/README': 'x',
    'nightly/a/inner/owner.json': ownerOf('inner', 'v'),
    'nightly/a/inner/c/node-0/1.snapshot': 'x',
    'nightly-old/a/owner.json': ownerOf('a'),
    'nightly.json': 'x',
    'nightly//a/manifest.json': FOREIGN,
    'nightly/../a/owner.json': ownerOf('a'),
    'nightly/ü ?#%2F&<\'">/owner.json': ownerOf('odd'),
    'owner.json': ownerOf('none'),
  })
  store().pageSize = 2
  const { code, out, err } = await find('s3://backups/nightly', '-o', 'json')
  t.equal(code, EXIT_CODES.success, err)
  const { backups, otherObjects } = JSON.parse(out) as Found
  const problem = 'no manifest.json: the backup is running, or did not finish'
  matchWhole(
    t,
    backups.toSorted((a, b) => (a.location < b.location ? -1 : 1)),
    [
      { location: 's3://backups/nightly/a', objects: 2, owner: 'ns/a', complete: false, problem },
      { location: 's3://backups/nightly/a/inner', objects: 2, owner: 'ns/inner', problem },
      { location: 's3://backups/nightly/ü ?#%2F&<\'">', objects: 1, owner: 'ns/odd', problem },
    ],
  )
  t.strictSame(otherObjects, { count: 3, example: 'nightly/../a/owner.json' })
  t.match(err, '3 objects belong to no backup, such as s3://backups/nightly/../a/owner.json\n')
  t.match(await find('s3://backups/nothing'), { code: 0, out: 'No backups.\n', err: '' })
})

t.test(
  'a manifest or owner that cannot be read is listed with its error, and exits with 1',
  async (t) => {
    const { find, s3 } = await bucketWith(t, {
      'p/a/owner.json': ownerOf('a'),
      'p/a/manifest.json': FOREIGN,
      'p/b/manifest.json': 'not JSON',
      'p/c/owner.json': { uid: 'u' },
      'p/d/manifest.json': { ...FOREIGN, nodeCount: 'two' },
    })
    const { code, out } = await find('s3://backups', '-o', 'json')
    t.equal(code, EXIT_CODES.failure)
    const { backups } = JSON.parse(out) as Found
    const of = (location: string, problem: RegExp) => ({ location, unreadable: true, problem })
    matchWhole(
      t,
      backups.toSorted((a, b) => (a.location < b.location ? -1 : 1)),
      [
        of('s3://backups/p/a', /^s3:\/\/backups\/p\/a\/owner.json does not match this manifest$/),
        of('s3://backups/p/b', /manifest\.json is not JSON$/),
        of('s3://backups/p/c', /owner\.json is not an owner\.json of a backup$/),
        of('s3://backups/p/d', /^manifest\.json: \/nodeCount: Expected integer$/),
      ],
    )
    s3.misbehave(({ operation }) =>
      operation === 'ListObjectsV2' ? { status: 403, code: 'AccessDenied' } : undefined,
    )
    t.match(await find('s3://backups'), { code: EXIT_CODES.failure, out: '', err: /AccessDenied/ })
  },
)

t.test(
  'a backup of another program without an object of its manifest is not complete',
  async (t) => {
    const { find } = await bucketWith(t, {
      'theirs/manifest.json': {
        ...FOREIGN,
        collections: [
          {
            name: 'docs',
            snapshots: [{ ...FOREIGN.collections[0]?.snapshots[0], sizeBytes: 1024 ** 2 }],
          },
        ],
      },
    })
    const { code, out } = await find('s3://backups', '-o', 'json')
    t.equal(code, EXIT_CODES.success)
    matchWhole(t, (JSON.parse(out) as Found).backups, [
      {
        complete: false,
        problem: 'nightly/theirs/x is missing',
      },
    ])
  },
)

t.test('a backup without one of its objects is not complete, whatever else it has', async (t) => {
  const { world, s3, store, manifest } = await backupFixture(t, {
    nodes: 1,
    engineCollections: ['docs', 'small'],
  })
  await world.run()
  const find = async () => {
    const flags = ['--endpoint', s3.url, '--path-style', '-o', 'json']
    const { code, out, err } = await runCommand(['backup', 'find', 's3://backups', ...flags], KEYS)
    t.equal(code, EXIT_CODES.success, err)
    return (JSON.parse(out) as Found).backups
  }
  matchWhole(t, await find(), [{ complete: true, problem: undefined }])
  // Of a pod that was replaced.
  store().put('nightly/b/docs/node-0/docs-former.snapshot', Buffer.alloc(1024 ** 2))
  const { key, sizeBytes } = manifest().collections[1]?.snapshots[0] ?? { key: '', sizeBytes: 1 }
  store().put(key, Buffer.alloc(sizeBytes - 1))
  const differs = `${key} has ${sizeBytes - 1} bytes, not ${sizeBytes}`
  matchWhole(t, await find(), [{ complete: false, problem: differs }])
  store().objects.delete(key)
  matchWhole(t, await find(), [
    { complete: false, unreadable: false, problem: `${key} is missing` },
  ])
})

t.test(
  'a listing without its rest is an error, and another form of path a usage error',
  async (t) => {
    const { store, find } = await bucketWith(t, { 'a/owner.json': ownerOf('a'), 'b/x': 'x' })
    store().pageSize = 1
    store().hidesTokens = true
    const { code, out, err } = await find('s3://backups')
    t.strictSame({ code, out }, { code: EXIT_CODES.failure, out: '' })
    t.match(err, 'has more objects, but the store does not say how to list them')
    t.match(await find('backups/nightly'), {
      code: EXIT_CODES.usage,
      err: /is not of the form s3:\/\/<bucket>/,
    })
  },
)
