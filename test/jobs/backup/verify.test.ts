/** `backup verify` finds defects of a backup from the bucket alone. */
import t from 'tap'
import { parse } from 'yaml'
import { EXIT } from '../../../crds/contract/job.ts'
import type { NodeManifest } from '../../../crds/contract/manifest.ts'
import { EXIT_CODES } from '../../../jobs/kubectl/command.ts'
import { matchWhole } from '../../match-whole.ts'
import { runCommand } from '../kubectl/cli-user.ts'
import { KEYS } from './backup-world.ts'
import { backupFixture, type BackupFixture } from './fixture.ts'

const TARGET = 's3://backups/nightly/b'
const MANIFEST = 'nightly/b/manifest.json'

const CORRUPTIONS: [string, (stage: BackupFixture, key: string) => void, RegExp][] = [
  ['an object that is missing', ({ store }, key) => store().objects.delete(key), /is missing/],
  [
    'an object that is shorter',
    ({ store }, key) => store().put(key, Buffer.from('x')),
    /has 1 bytes, not \d+/,
  ],
  [
    'an object with other bytes',
    ({ store }, key) => store().objects.get(key)?.body.fill('x'),
    /has the SHA-256 [0-9a-f]{64}, not [0-9a-f]{64}/,
  ],
  [
    'a manifest without a node',
    (stage) => rewrite(stage, (manifest) => void manifest.collections[0]?.snapshots.pop()),
    /collection docs has snapshots of nodes 0, not of 0 to 1/,
  ],
  [
    'a manifest of which a field is wrong',
    (stage) => rewrite(stage, (manifest) => Object.assign(manifest, { nodeCount: 'two' })),
    /manifest.json: \/nodeCount: Expected integer/,
  ],
  [
    'a manifest of a newer kind',
    (stage) => rewrite(stage, (manifest) => Object.assign(manifest, { manifestVersion: 9 })),
    /manifestVersion 9 is newer than this operator reads/,
  ],
  [
    'a manifest of another backup',
    (stage) => rewrite(stage, (manifest) => (manifest.uid = 'other')),
    /owner.json does not match this manifest/,
  ],
  [
    'a key outside of the folder',
    (stage) =>
      rewrite(stage, ({ collections }) =>
        Object.assign(collections[0]?.snapshots[0] ?? {}, { key: 'elsewhere/x' }),
      ),
    /elsewhere\/x is not in the folder of this backup/,
  ],
  [
    'a manifest that is missing',
    ({ store }) => store().objects.delete('nightly/b/manifest.json'),
    /the backup did not finish/,
  ],
]
for (const [what, spoil, words] of CORRUPTIONS) {
  t.test(`${what} is found and named`, async (t) => {
    const scene = await backupFixture(t)
    await scene.world.run()
    const key = scene.keys().find((name) => name.endsWith('.snapshot')) ?? ''
    spoil(scene, key)
    const { code, log } = await scene.world.verify(TARGET)
    t.equal(code, EXIT.failed)
    t.match(log, words)
  })
}

t.test('an object whose stream breaks is read again', async (t) => {
  const { world, s3 } = await backupFixture(t, { nodes: 1, snapshotBytes: 100_000 })
  await world.run()
  let count = 0
  s3.misbehave(({ operation, key }) =>
    operation === 'GetObject' && key.endsWith('.snapshot') && count++ < 2
      ? { cut: 'out' }
      : undefined,
  )
  const { code, log } = await world.verify(TARGET)
  t.equal(code, EXIT.done, log)
  t.match(log, /download interrupted, retrying/)
})

t.test('a backup without one of its collections is incomplete, whatever else it has', async (t) => {
  const { world } = await backupFixture(t, { collections: ['docs', 'gone'] })
  await world.run()
  const { code, log } = await world.verify(TARGET)
  t.equal(code, EXIT_CODES.failure)
  t.match(log, /collection gone is not in this backup: it failed, or was deleted/)
  t.match(log, /this backup is incomplete: 1 problem/)
})

t.test('its existing collections can be verified by name', async (t) => {
  const { world } = await backupFixture(t, { collections: ['docs', 'gone'] })
  await world.run()
  const { code, log } = await world.verify(TARGET, '--collections', 'docs')
  t.equal(code, EXIT_CODES.success, log)
  t.match(log, /all 2 objects are complete/)
  const incomplete = await world.verify(TARGET, '--collections', 'docs,gone')
  t.equal(incomplete.code, EXIT_CODES.failure)
  t.match(incomplete.log, /collection gone is not in this backup/)
})

t.test('only the named collections are read', async (t) => {
  const { world, s3 } = await backupFixture(t, { engineCollections: ['docs', 'other'] })
  await world.run()
  const before = s3.calls.length
  const { code, log } = await world.verify(TARGET, '--collections', 'other')
  t.equal(code, EXIT_CODES.success, log)
  const read = s3.calls.slice(before).filter(({ key }) => key.endsWith('.snapshot'))
  t.ok(read.length > 0 && read.every(({ key }) => key.startsWith('nightly/b/other/')))
})

t.test('a collection that is not part of the backup is rejected by name', async (t) => {
  const { world } = await backupFixture(t)
  await world.run()
  const { code, log } = await world.verify(TARGET, '--collections', 'dogs')
  t.equal(code, EXIT_CODES.failure)
  t.match(log, /--collections names dogs, which is not in this backup; its collections are docs/)
})

t.test('a byte of the recorded configuration that changed is found', async (t) => {
  const scene = await backupFixture(t)
  await scene.world.run()
  const text = scene.store().text(MANIFEST) ?? ''
  const flipped = text.replace('"m":16', '"m":17')
  t.not(flipped, text)
  scene.store().put(MANIFEST, Buffer.from(flipped))
  const { code, log } = await scene.world.verify(TARGET)
  t.equal(code, EXIT_CODES.failure)
  t.match(log, /manifest.json: manifestSha256 is [0-9a-f]{64}, but its other fields have/)
})

t.test('a manifest of an earlier release is verified, with a note', async (t) => {
  const scene = await backupFixture(t)
  await scene.world.run()
  rewrite(scene, () => undefined)
  const { code, log } = await scene.world.verify(TARGET)
  t.equal(code, EXIT_CODES.success, log)
  t.match(log, /from an earlier release and has no checksum/)
})

for (const [target, ...flags] of [['backups/nightly/b'], ['s3://backups'], [TARGET, '--fast']]) {
  t.test(`"${[target, ...flags].join(' ')}" is answered with how to call it`, async (t) => {
    const { world } = await backupFixture(t)
    const { code, log } = await world.verify(target ?? '', ...flags)
    t.equal(code, EXIT_CODES.usage)
    t.match(log, /s3:\/\/<bucket>\/<prefix>\/<name>/)
  })
}

t.test('--output json prints only the result, and each object in it', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  await scene.world.run()
  const [key = ''] = scene.keys().filter((name) => name.endsWith('.snapshot'))
  const { code, out, err } = await verifyWith(scene, '--output', 'json')
  t.equal(code, EXIT_CODES.success, err)
  const { createdAt } = scene.manifest()
  const bytes = scene.store().objects.get(key)?.body.length
  t.strictSame(JSON.parse(out), {
    location: TARGET,
    complete: true,
    compared: 'sha256',
    problems: [],
    objects: [{ collection: 'docs', node: 0, key, bytes }],
    backup: 'b',
    cluster: 'ns/a',
    createdAt,
    engineVersion: '1.18.3',
    nodes: 1,
    collections: 1,
    points: 0,
    bytes,
  })
  t.match(err, /ok nightly\/b\/docs/, 'the log is on standard error')
})

t.test('the result says when only sizes were compared', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  await scene.world.run()
  const { code, out } = await verifyWith(scene, '--output', 'yaml', '--sizes-only')
  t.equal(code, EXIT_CODES.success)
  matchWhole(t, parse(out), { complete: true, compared: 'size' })
})

t.test('the result of an incomplete backup names what is wrong, and exits with 1', async (t) => {
  const scene = await backupFixture(t)
  await scene.world.run()
  const [first = '', second = ''] = scene.keys().filter((name) => name.endsWith('.snapshot'))
  scene.store().objects.delete(first)
  const missing = `${first} is missing`
  const { code, out } = await verifyWith(scene, '--output', 'json')
  t.equal(code, EXIT_CODES.failure)
  matchWhole(t, JSON.parse(out), {
    complete: false,
    problems: [missing],
    objects: [
      { collection: 'docs', node: 0, key: first, problem: missing },
      { collection: 'docs', node: 1, key: second, problem: undefined },
    ],
  })

  scene.store().objects.delete(MANIFEST)
  const unreadable = await verifyWith(scene, '--output', 'json')
  t.equal(unreadable.code, EXIT_CODES.failure)
  t.strictSame(JSON.parse(unreadable.out), {
    location: TARGET,
    complete: false,
    compared: 'sha256',
    problems: [
      `s3://backups/${MANIFEST} not found: the backup did not finish, or the path is wrong`,
    ],
    objects: [],
  })
})

/** Standard output and standard error apart. */
function verifyWith({ s3 }: BackupFixture, ...flags: string[]) {
  const store = ['--endpoint', s3.url, '--path-style']
  return runCommand(['backup', 'verify', TARGET, ...store, ...flags], KEYS)
}

function rewrite(
  { manifest, store }: BackupFixture,
  change: (manifest: NodeManifest) => unknown,
): void {
  const changed = manifest()
  // A release that wrote no checksum: the other defect is found.
  delete changed.manifestSha256
  change(changed)
  store().put(MANIFEST, Buffer.from(JSON.stringify(changed)))
}
