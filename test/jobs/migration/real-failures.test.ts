/**
 * Bad days of real engines, which ENGINE_BIN names, while a migration is at work: collections that are
 * deleted, a full disk, and more points than fit any memory.
 */
import { readFileSync } from 'node:fs'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { EXIT } from '../../../crds/contract/job.ts'
import { systemClock } from '../../../jobs/clock.ts'
import { realSubject } from '../../contract/engine/real.ts'
import { smallVolume, type Volume } from '../../contract/engine/volume.ts'
import { matchWhole } from '../../match-whole.ts'
import { migrationWorld, type MigrationWorldOptions } from './migration-world.ts'
import { engineCalls, createCollection, manyPoints } from './engine-pair.ts'

const bin = process.env['ENGINE_BIN'] ?? ''
const MILLION = 1_000_000
const FILL_BATCH = 20_000
const MAX_MEMORY_MIB = 256
/** A call in progress at that moment may be repeated. */
const REPORT_DEADLINE_MS = 30_000

if (bin === '') {
  t.pass('ENGINE_BIN names no engine: nothing to examine', { skip: true })
} else {
  t.setTimeout(1_200_000)
  suite()
}

interface Setting {
  spec?: MigrationWorldOptions['spec']
  /** Of the target. */
  volume?: Volume | undefined
}

async function stage(t: Test, { spec, volume }: Setting = {}) {
  const setting = { size: 'one', service: {} } as const
  const volumes = volume === undefined ? {} : { volumes: [volume.folder] }
  const subjects = await Promise.all([
    realSubject(bin, setting),
    realSubject(bin, setting, volumes),
  ])
  t.teardown(async () => {
    await Promise.all(subjects.map((subject) => subject.close()))
  })
  const [source, target] = subjects.map(({ urls: [url = ''] }) => ({ url, ...engineCalls(url) }))
  if (source === undefined || target === undefined) throw new Error('there are no two engines')
  const world = await migrationWorld(t, {
    source: source.url,
    ports: [Number(new URL(target.url).port)],
    ...(spec !== undefined && { spec }),
  })
  return { source, target, world }
}

type Side = Awaited<ReturnType<typeof stage>>['source']

/** None before the collection is there; any other answer is an error. */
async function countOf({ call }: Side): Promise<number> {
  try {
    const counted = await call('POST', '/collections/docs/points/count', { exact: true })
    return (counted as { count: number }).count
  } catch (error) {
    if (!/ answered 404: /.test(String(error))) throw error
    return 0
  }
}

function suite(): void {
  for (const side of ['source', 'target'] as const) {
    t.test(
      `a collection that is deleted at the ${side} during the copy fails immediately, and is reported`,
      async (t) => {
        const { source, target, world } = await stage(t, { spec: { batchSize: 20 } })
        await createCollection(source, 'docs', manyPoints(20_000))
        const running = world.run({ time: systemClock })
        while ((await countOf(target)) < 500);
        await { source, target }[side].call('DELETE', '/collections/docs?timeout=60')
        const deletedAt = performance.now()
        const { code, log } = await running
        t.equal(code, EXIT.failed, log)
        const { error } = await world.result()
        t.equal(error, `docs: collection docs was deleted at the ${side} during the migration`)
        t.ok(performance.now() - deletedAt < REPORT_DEADLINE_MS, 'reported immediately')
      },
    )
  }

  const volume = smallVolume(200)
  t.teardown(() => volume?.close())
  const skip = volume === undefined && 'no volume can be mounted here'
  t.test('a full disk of the target is reported with what to do', { skip }, async (t) => {
    const { source, target, world } = await stage(t, { volume })
    await createCollection(source, 'docs', manyPoints(50_000))
    const running = world.run({ time: systemClock })
    while ((await countOf(target)) < 500);
    volume?.fill()
    const { code, log } = await running
    t.equal(code, EXIT.failed, log)
    const { error } = await world.result()
    t.match(error, /volume of the target is full: grow it/)
    t.comment(error)
  })

  t.test('a million tiny points arrive, in less than 256 MiB', async (t) => {
    const { source, target, world } = await stage(t, { spec: { batchSize: 2_000 } })
    await createCollection(source, 'docs', [])
    for (let from = 1; from < MILLION; from += FILL_BATCH) {
      const points = manyPoints(FILL_BATCH, from)
      await source.call('PUT', '/collections/docs/points?wait=true', { points })
    }
    const { child, log } = world.start()
    let peak = 0
    const looking = setInterval(() => (peak = Math.max(peak, peakOf(child.pid ?? 0))), 50)
    const [code] = (await once(child, 'exit')) as [number]
    clearInterval(looking)
    t.equal(code, EXIT.done, code === EXIT.done ? 'done' : await log)
    t.equal(await countOf(target), MILLION)
    matchWhole(t, (await world.result()).collections, [{ proof: /^1000000 points on both sides/ }])
    t.comment(`${peak} MiB`)
    t.ok(peak > 0 && peak < MAX_MEMORY_MIB, `${peak} MiB`)
  })
}

/** The most memory a process ever had, in MiB; 0 once it has ended. */
function peakOf(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'utf8')
    return Math.round(Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1] ?? 0) / 1024)
  } catch {
    return 0
  }
}
