/** `backup verify`: what is wrong with a backup is found from the bucket alone. */
import t from 'tap'
import { EXIT } from '../../../crds/command.ts'
import type { NodeManifest } from '../../../crds/manifest.ts'
import { ENDS } from '../../../jobs/people/command.ts'
import { stage, type Stage } from './stage.ts'

const TARGET = 's3://backups/nightly/b'

const SPOILT: [string, (stage: Stage, key: string) => void, RegExp][] = [
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
    /owner.json is not that of this manifest/,
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
    /the backup was not finished/,
  ],
]
for (const [what, spoil, words] of SPOILT) {
  t.test(`${what} is found and named`, async (t) => {
    const scene = await stage(t)
    await scene.world.run()
    const key = scene.keys().find((name) => name.endsWith('.snapshot')) ?? ''
    spoil(scene, key)
    const { code, log } = await scene.world.verify(TARGET)
    t.equal(code, EXIT.over)
    t.match(log, words)
  })
}

t.test('an object whose stream breaks off is read again', async (t) => {
  const { world, s3 } = await stage(t, { nodes: 1, snapshotBytes: 100_000 })
  await world.run()
  let count = 0
  s3.misbehave(({ operation, key }) =>
    operation === 'GetObject' && key.endsWith('.snapshot') && count++ < 2
      ? { cut: 'out' }
      : undefined,
  )
  const { code, log } = await world.verify(TARGET)
  t.equal(code, EXIT.done, log)
  t.match(log, /broke off: reads it again/)
})

t.test('collections that failed are named as not in the backup', async (t) => {
  const { world } = await stage(t, { collections: ['docs', 'gone'] })
  await world.run()
  const { log } = await world.verify(TARGET, '--sizes-only')
  t.match(log, /not in this backup, for they failed: gone/)
  t.match(log, /all 2 objects have the right size/)
})

for (const [target, ...flags] of [['backups/nightly/b'], ['s3://backups'], [TARGET, '--fast']]) {
  t.test(`"${[target, ...flags].join(' ')}" is answered with how to call it`, async (t) => {
    const { world } = await stage(t)
    const { code, log } = await world.verify(target ?? '', ...flags)
    t.equal(code, ENDS.usage)
    t.match(log, /s3:\/\/<bucket>\/<prefix>\/<name>/)
  })
}

function rewrite({ manifest, store }: Stage, change: (manifest: NodeManifest) => unknown): void {
  const changed = manifest()
  change(changed)
  store().put('nightly/b/manifest.json', Buffer.from(JSON.stringify(changed)))
}
