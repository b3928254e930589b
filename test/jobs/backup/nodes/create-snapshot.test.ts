/** Snapshots on nodes: that take hours, outlive their request, fail, or exist next to snapshots of users. */
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { EXIT } from '../../../../crds/contract/job.ts'
import { ownerKey, nodeCheckpointKey } from '../../../../crds/contract/backup-keys.ts'
import { addSeal } from '../../../../jobs/backup/objects.ts'
import { systemClock } from '../../../../jobs/clock.ts'
import {
  filesOf,
  makeSnapshot,
  setMaking,
  snapshotFiles,
} from '../../../doubles/engine/snapshots.ts'
import { UNAVAILABLE } from '../../../doubles/engine/misbehaviour.ts'
import { JOB } from '../../job-fixture.ts'
import { instantClock } from '../../job-world.ts'
import { backupFixture, type BackupFixture } from '../fixture.ts'

const GIB = 1024 ** 3
const HOUR_MS = 3_600_000

/** Time of the Job, which hears of the first moment after so many hours. */
function hoursLater(hours: number, act: () => void) {
  const time = instantClock(() => {
    if (time.now().getTime() - start >= hours * HOUR_MS) act()
  })
  const start = time.now().getTime()
  return time
}

/** Each file of the engine is a second younger than the one before: files of one second have one name. */
function secondBySecond(): () => Date {
  let seconds = 0
  return () => new Date(Date.now() + 1000 * (seconds += 1))
}

t.test('a backup waits for a large snapshot as long as its size allows', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  const made = Promise.withResolvers<undefined>()
  setMaking(scene.engine, { until: () => made.promise, vectorBytes: 20 * GIB })
  const time = hoursLater(5, () => made.resolve(undefined))
  const { code, log } = await scene.world.run({}, { time })
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /node 0: snapshot still in progress/)
  t.notMatch(log, /retrying (snapshot|shard)/)
  t.equal(snapshotFiles(scene.engine).size, 0)
})

t.test(
  'after that time the collection fails, and the error names the snapshot that the node still creates',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1 })
    setMaking(scene.engine, { until: () => Promise.withResolvers<undefined>().promise })
    t.equal((await scene.world.run()).code, EXIT.failed)
    t.match(await scene.result(), {
      failed: 1,
      error: /^node 0 is creating 1 other snapshots of docs \(waited \d+ s\)$/,
    })
    t.match(
      (await scene.world.progress())?.message,
      /; still on nodes, to be deleted there: the snapshot of docs that node 0 is still making/,
    )
  },
)

t.test(
  'a snapshot file that appears after its attempt failed is deleted before the next attempt',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1 })
    const made = Promise.withResolvers<undefined>()
    setMaking(scene.engine, { until: () => made.promise })
    const time = hoursLater(1.05, () => made.resolve(undefined))
    const { code, log } = await scene.world.run({}, { time })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /node 0 did not complete the snapshot of docs in 60 minutes/)
    t.equal(snapshotFiles(scene.engine).size, 0)
  },
)

t.test('a node that creates no file is asked for the reason', async (t) => {
  const scene = await backupFixture(t, { nodes: 2 })
  const failure = 'Service internal error: No space left on device (os error 28)'
  setMaking(scene.engine, { failure: (node) => (node === 1 ? failure : undefined) })
  const { log } = await scene.world.run()
  t.match(await scene.result(), {
    failed: 1,
    error: /No space left on device .*grow the data volume/,
  })
  t.match(log, /node 1 created no snapshot of docs: see its log/)
  t.equal(snapshotFiles(scene.engine).size, 0)
})

t.test('a node that counts an accepted snapshot late is given time to start it', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  const started = Promise.withResolvers<undefined>()
  setMaking(scene.engine, { starts: () => started.promise })
  let requests = 0
  let polls = 0
  scene.nodes[0]?.misbehave(({ method, path }) => {
    const isOfSnapshots = path[2] === 'snapshots'
    if (method === 'POST' && isOfSnapshots) requests += 1
    if (requests === 1 && method === 'GET' && isOfSnapshots) polls += 1
    if (polls === 5) started.resolve(undefined)
    return undefined
  })
  const { code, log } = await scene.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.ok(polls >= 5, `${polls} polls`)
  t.equal(requests, 1, 'the snapshot was requested once')
  t.notMatch(log, /created no snapshot/)
  t.equal(snapshotFiles(scene.engine).size, 0)
})

t.test('a node that never starts an accepted snapshot is asked for the reason', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  let requests = 0
  setMaking(scene.engine, {
    starts: async () => {
      requests += 1
      if (requests === 1) await Promise.withResolvers<undefined>().promise
    },
  })
  const { code, log } = await scene.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.match(log, /node 0 created no snapshot of docs: see its log/)
  t.equal(requests, 2)
  t.equal(snapshotFiles(scene.engine).size, 0)
})

t.test('a node that does not answer while it creates a snapshot is asked again', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  const made = Promise.withResolvers<undefined>()
  setMaking(scene.engine, { until: () => made.promise })
  let requests = 0
  let failed = 0
  scene.nodes[0]?.misbehave(({ method, path }) => {
    const isCreation = method === 'POST' && path[2] === 'snapshots'
    if (isCreation) requests += 1
    if (requests === 0 || isCreation || failed === 20) return undefined
    failed += 1
    if (failed === 20) made.resolve(undefined)
    return UNAVAILABLE
  })
  const { code, log } = await scene.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(failed, 20)
  t.equal(requests, 1, 'the snapshot was requested once')
  t.equal(snapshotFiles(scene.engine).size, 0)
})

t.test(
  'the next pod deletes a snapshot whose pod was killed while the node created it',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1 })
    const made = Promise.withResolvers<undefined>()
    setMaking(scene.engine, { until: () => made.promise })
    const key = nodeCheckpointKey(scene.world.folder, 'docs', 0)
    const isAccepted = () => scene.store().text(key)?.includes('"isAccepted":true') === true
    const { child } = scene.world.start()
    while (!isAccepted()) await sleep(POLL_MS)
    child.kill('SIGKILL')
    await once(child, 'close')
    made.resolve(undefined)
    const { code, log } = await scene.world.run({}, { pod: 'pod-2', time: systemClock })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /engine snapshot deleted/)
    t.equal(snapshotFiles(scene.engine).size, 0)
    t.match((await scene.world.progress())?.message, /^Backed up 1\/1 collections$/)
  },
)

t.test(
  'the next pod waits for a large snapshot whose pod was killed as long as its size allows, and deletes it',
  async (t) => {
    const now = secondBySecond()
    const scene = await backupFixture(t, { nodes: 1, engineCollections: ['docs', 'other'], now })
    const made = Promise.withResolvers<undefined>()
    let begun = 0
    const until = async () => ((begun += 1) === 1 ? made.promise : undefined)
    setMaking(scene.engine, { until, vectorBytes: 20 * GIB })
    const key = nodeCheckpointKey(scene.world.folder, 'docs', 0)
    const isAccepted = () => scene.store().text(key)?.includes('"isAccepted":true') === true
    const { child } = scene.world.start()
    while (!isAccepted()) await sleep(POLL_MS)
    child.kill('SIGKILL')
    await once(child, 'close')
    t.equal(begun, 1)
    let polls = 0
    scene.nodes[0]?.misbehave(({ path }) => {
      polls += path[0] === 'telemetry' ? 1 : 0
      return path[0] === 'telemetry' && polls > 20 && polls <= 30 ? UNAVAILABLE : undefined
    })
    const clock = hoursLater(2, () => made.resolve(undefined))
    const start = Date.now()
    // The first pod had the time of this machine.
    const time = { ...clock, now: () => new Date(start + clock.monotonicMs()) }
    const { code, log } = await scene.world.run({}, { pod: 'pod-2', time })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.match(log, /node 0: waiting for the snapshot of an earlier attempt/)
    t.match(log, /engine snapshot deleted/)
    t.notMatch(log, /retrying snapshot/)
    t.equal(snapshotFiles(scene.engine).size, 0)
    t.match((await scene.world.progress())?.message, /^Backed up 2\/2 collections$/)
  },
)

t.test(
  'a snapshot of a user that takes hours is waited for as long as its size allows',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1, now: secondBySecond() })
    const made = Promise.withResolvers<undefined>()
    let begun = 0
    let isSlow = false
    let slow = 0
    const until = async () => ((begun += 1) === 1 ? made.promise : undefined)
    setMaking(scene.engine, { until, vectorBytes: 20 * GIB })
    const url = `http://127.0.0.1:${scene.nodes[0]?.port}/collections/docs/snapshots?wait=false`
    await (await fetch(url, { method: 'POST' })).text()
    scene.nodes[0]?.misbehave(({ path }) => {
      if (!isSlow || path[0] !== 'telemetry') return undefined
      slow += 1
      return slow <= 10 ? UNAVAILABLE : undefined
    })
    const time = hoursLater(2, () => made.resolve(undefined))
    const onLine = (line: string) => {
      if (/waiting for other snapshots/.test(line)) isSlow = true
    }
    const { code, log } = await scene.world.run({}, { time, onLine })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.notMatch(log, /retrying snapshot/)
    t.ok(slow > 10, `${slow} requests`)
    t.equal(snapshotFiles(scene.engine).size, 1)
    t.match((await scene.world.progress())?.message, /^Backed up 1\/1 collections$/)
  },
)

const POLL_MS = 10

/** What was in checkpoint.json when a pod was killed right after it had written it. */
function writePreviousCheckpoint(
  { store, world }: BackupFixture,
  part: object,
  { job = JOB, key = nodeCheckpointKey(world.folder, 'docs', 0) } = {},
) {
  const content = { uid: world.uid, round: 1, ...part }
  const owner = {
    ...{ uid: world.uid, namespace: 'ns', name: 'b', cluster: { namespace: 'ns', name: 'a' } },
    ...{ startedAt: AT, collections: ['docs'] },
  }
  store().put(ownerKey(world.folder), Buffer.from(JSON.stringify(owner)))
  store().put(key, Buffer.from(JSON.stringify(addSeal(key, content, { tools: { jobUid: job } }))))
}

/** A minute ago: two snapshots of one second have the same name. */
function createUserSnapshot({ engine }: BackupFixture): string {
  const at = new Date(Date.now() - 60_000).toISOString().slice(0, 19).replaceAll(/[T:]/g, '-')
  const name = `docs-${engine.peer(0).id}-${at}.snapshot`
  const { content, ...file } = makeSnapshot(engine, 0, 'docs')
  snapshotFiles(engine).clear()
  snapshotFiles(engine).set(`0/docs/${name}`, { ...file, name, content })
  return name
}

const AT = new Date().toISOString()
const SINCE = new Date(1000).toISOString()

t.test(
  'a snapshot that a user created after a pod was killed before its request is not deleted',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1 })
    writePreviousCheckpoint(scene, {
      ...{ state: 'Pending', at: AT, existing: [] },
      creations: { total: 0, since: SINCE },
    })
    const name = createUserSnapshot(scene)
    const { code, log } = await scene.world.run({}, { time: systemClock })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.ok(filesOf(scene.engine, 0, 'docs').some((file) => file.name === name))
  },
)

t.test(
  'a snapshot that a user creates at the same time as ours is not deleted, and both are named',
  async (t) => {
    const scene = await backupFixture(t, { nodes: 1, now: secondBySecond() })
    let begun = 0
    setMaking(scene.engine, {
      until: async () => {
        begun += 1
        if (begun > 1) return
        const answer = await fetch(
          `http://127.0.0.1:${scene.nodes[0]?.port}/collections/docs/snapshots`,
          {
            method: 'POST',
          },
        )
        await answer.text()
      },
    })
    const { code, log } = await scene.world.run({}, { time: systemClock })
    t.equal(code, EXIT.done, log.slice(-2000))
    t.equal(snapshotFiles(scene.engine).size, 2)
    const [one, other] = filesOf(scene.engine, 0, 'docs').map(({ name }) => name)
    t.match(
      (await scene.world.progress())?.message,
      new RegExp(`: of (${one}, ${other}|${other}, ${one}) on node 0, the one you did not make$`),
    )
  },
)

for (const suffix of ['.snapshot', '/collection.json', '/manifest.json']) {
  t.test(
    `a file that may be ours is named at the end, also after a second pod is killed at ${suffix}`,
    async (t) => {
      const scene = await backupFixture(t, { nodes: 1 })
      // The first pod sent the request, and was killed before the response.
      writePreviousCheckpoint(scene, {
        ...{ state: 'Pending', at: AT, existing: [] },
        creations: { total: 0, since: SINCE },
      })
      const url = `http://127.0.0.1:${scene.nodes[0]?.port}/collections/docs/snapshots`
      await (await fetch(url, { method: 'POST' })).text()
      const [{ name } = { name: '' }] = filesOf(scene.engine, 0, 'docs')
      const killed = new AbortController()
      scene.s3.misbehave(({ operation, key }) => {
        if (operation === 'PutObject' && key.endsWith(suffix)) killed.abort(new Error('SIGTERM'))
        return undefined
      })
      t.equal((await scene.world.run({}, { signal: killed.signal })).code, EXIT.crash)
      scene.s3.misbehave()
      const { code, log } = await scene.world.run({}, { pod: 'pod-3' })
      t.equal(code, EXIT.done, log.slice(-2000))
      t.match(await scene.world.progress(), {
        message: `Backed up 1/1 collections; still on nodes, to be deleted there: of ${name} on node 0, the one you did not make`,
      })
    },
  )
}

t.test('a node that is silent while its files are cleaned up fails nothing', async (t) => {
  const scene = await backupFixture(t, { nodes: 1 })
  writePreviousCheckpoint(scene, {
    ...{ state: 'Pending', at: AT, existing: [], isAccepted: true },
    creations: { total: 0, since: SINCE },
  })
  const timeout = AbortSignal.timeout.bind(AbortSignal)
  t.teardown(() => (AbortSignal.timeout = timeout))
  AbortSignal.timeout = (ms) => timeout(ms / 100)
  const never = Promise.withResolvers<undefined>()
  let isCleanUp = false
  scene.nodes[0]?.misbehave(({ path, query }) => {
    if (path[0] !== 'telemetry') return undefined
    const isSilent = isCleanUp
    // The writes are counted directly before.
    isCleanUp = 'timeout' in query
    return isSilent ? { until: never.promise } : undefined
  })
  const { code, log } = await scene.world.run()
  t.equal(code, EXIT.done, log.slice(-2000))
  t.equal(
    (await scene.world.progress())?.message,
    'Backed up 1/1 collections; still on nodes, to be deleted there: perhaps a snapshot of docs on node 0, which did not answer',
  )
})

/** Objects that other programs wrote into the bucket. */
const FORGED: [string, (name: string) => object, string][] = [
  [
    'names `..` as the file',
    () => ({ state: 'Pending', at: AT, existing: [], snapshotName: '..' }),
    JOB,
  ],
  [
    'names a file of a user',
    (name) => ({ state: 'Pending', at: AT, existing: [], snapshotName: name }),
    'of-another-job',
  ],
  [
    'says that a file of a user was uploaded',
    (name) => ({
      ...{ state: 'Whole', fingerprint: 'x', isOurs: true },
      snapshot: {
        ...{ nodeIndex: 0, snapshotName: name, key: 'x', sizeBytes: 1, localShards: [] },
        sha256: '0'.repeat(64),
      },
    }),
    'of-another-job',
  ],
]
for (const [what, part, job] of FORGED) {
  t.test(`a checkpoint that ${what} deletes nothing on a node`, async (t) => {
    const scene = await backupFixture(t, { nodes: 1 })
    const name = createUserSnapshot(scene)
    writePreviousCheckpoint(scene, part(name), { job })
    const deleted: string[] = []
    scene.nodes[0]?.misbehave(({ method, path }) => {
      if (method === 'DELETE') deleted.push(path.join('/'))
      return undefined
    })
    const { log } = await scene.world.run({}, { time: systemClock })
    t.match(log, /node 0: creating the snapshot|is not a valid name/)
    t.ok(scene.engine.collections.has('docs'))
    t.ok(filesOf(scene.engine, 0, 'docs').some((file) => file.name === name))
    t.ok(deleted.every((path) => path !== 'collections/docs' && !path.endsWith(name)))
  })
}
