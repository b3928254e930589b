/**
 * A backup of one snapshot next to `curl <engine snapshot> | <S3 client upload>` of one as large, in
 * turns; and what the Job takes when the snapshot is eight times as large.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { VecBackup } from '../../crds/backup.ts'
import { JOB_ENV, encodePlan, type BackupPlan } from '../../crds/contract/job.ts'
import { API_VERSION, HTTP_PORT } from '../../crds/contract/names.ts'
import { KEYS, realStore } from '../contract/bucket/real.ts'
import { realSubject } from '../contract/engine/real.ts'
import { startGeneratedEngine } from './generated-engine.ts'
import { STORAGE, mountKeys } from './bucket.ts'
import { POINTS_OF_A_GIB, fill } from './engine-calls.ts'
import { CLUSTER_HOST, jobCommand, startJobApi, taken, type Taken } from './job.ts'
import type { Part, Plan } from './part.ts'
import { build } from './processes.ts'
import { rest } from './rest.ts'
import { startSink } from './sink.ts'
import { median, type Figure } from './table.ts'

/** Of the yardstick; its command line is that of `aws`. */
const CLIENT = process.env['S3_CLIENT']

const MIB = 1024 * 1024
const GIB = 1024 * MIB
/** Of the generated snapshot whose memory is compared with that of one of 1 GiB. */
const LARGE = 8
const NAME = { namespace: 'ns', name: 'b' }

export const backup: Part = {
  name: 'backup',
  title: 'VecBackup of a 1 GiB snapshot',
  columns: ['Job', 'curl | S3 client'],
  usage: `
ENGINE_BIN names the engine, S3_BIN a versitygw; without them the bytes are generated and thrown away.
S3_CLIENT names an ordinary client with the command line of \`aws\` (pip install awscli, in a venv of its
own, or the Debian package); without it nothing stands beside the Job.`,
  needs: [
    { variable: 'ENGINE_BIN', rows: 'the rows "real"' },
    { variable: 'S3_BIN', rows: 'the rows "real"' },
    { variable: 'S3_CLIENT', rows: 'ratios and targets compared with curl | S3 client' },
  ],
  targets: () => [
    ...['real', 'generated, 1 GiB'].flatMap((ends) => [`${ends}: bytes`, `${ends}: RSS, peak`]),
    `generated, ${LARGE} GiB: RSS, peak`,
    `RSS at ${LARGE} GiB, in that at 1 GiB`,
  ],
  measure,
}

/** What bytes come from, and where they go. */
interface Ends {
  what: string
  engine: string
  endpoint: string
}

async function measure(plan: Plan): Promise<Figure[]> {
  await build()
  const folder = mkdtempSync(join(tmpdir(), 'vec-bench-'))
  const closing: (() => unknown)[] = [() => rmSync(folder, { recursive: true, force: true })]
  const opened = <End extends { close(): unknown }>(end: End): End => {
    closing.unshift(() => end.close())
    return end
  }
  try {
    const job = opened(await backupJob(folder))
    const sink = opened(await startSink())
    const figures: Figure[] = []
    const { ENGINE_BIN: engineBin, S3_BIN: storeBin } = process.env
    if (engineBin !== undefined && storeBin !== undefined) {
      const alone = { size: 'alone', service: {} } as const
      const at = { host: CLUSTER_HOST, port: HTTP_PORT }
      const engine = await realSubject(engineBin, alone, at)
      try {
        const [url = ''] = engine.urls
        await fill(url, 'docs', { points: POINTS_OF_A_GIB })
        const store = opened(await realStore(storeBin, folder))
        const ends = { what: 'real', engine: url, endpoint: store.endpoint }
        figures.push(...(await compare(ends, job, { pairs: plan.pairs, client: CLIENT })))
      } finally {
        await engine.close()
      }
    }
    for (const [size, pairs, client] of [
      [1, plan.pairs, CLIENT],
      [LARGE, 1, undefined],
    ] as const) {
      const engine = await startGeneratedEngine(CLUSTER_HOST, size * GIB)
      const ends = { what: `generated, ${size} GiB`, engine: engine.url, endpoint: sink.url }
      try {
        figures.push(...(await compare(ends, job, { pairs, client })))
      } finally {
        engine.close()
      }
    }
    return [...figures, growth(figures)]
  } finally {
    for (const close of closing) await close()
  }
}

async function compare(
  ends: Ends,
  job: BackupJob,
  { pairs, client }: { pairs: number; client: string | undefined },
): Promise<Figure[]> {
  const ours: Moved[] = []
  const theirs: Moved[] = []
  for (let pair = 0; pair < pairs; pair += 1) {
    await rest()
    ours.push(await job.run(ends))
    if (client === undefined) continue
    await rest()
    theirs.push(await pipe(client, ends))
  }
  return figuresOf(ends.what, ours, theirs)
}

/** Bytes moved, and what that took. */
interface Moved extends Taken {
  bytes: number
  /** From the first byte asked for to the answer that all are stored. */
  movingSeconds: number
}

function figuresOf(what: string, ours: Moved[], theirs: Moved[]): Figure[] {
  const rate = ({ bytes, movingSeconds }: Moved) => bytes / 1e6 / movingSeconds
  const cpu = ({ bytes, cpuSeconds }: Moved) => (cpuSeconds * GIB) / bytes
  const rates = ours.map(rate)
  const beside = (of: (moved: Moved) => number) =>
    theirs.length === 0 ? {} : { yardstick: median(theirs.map(of)) }
  const value = median(rates)
  const { yardstick } = beside(rate)
  const target = yardstick === undefined ? {} : { target: Math.round(0.95 * yardstick) }
  const peak = Math.max(...ours.map(({ peak: most }) => most))
  return [
    {
      ...{ what: `${what}: bytes`, unit: 'MB/s', value, best: Math.max(...rates) },
      ...(yardstick !== undefined && { yardstick, met: value >= 0.95 * yardstick }),
      ...target,
    },
    { what: `${what}: CPU for a GiB`, unit: 's', value: median(ours.map(cpu)), ...beside(cpu) },
    { what: `${what}: RSS, peak`, unit: 'MiB', value: peak, target: 200, met: peak < 200 },
  ]
}

/** Memory must not depend on the size; a tenth is what two runs of the same differ by. */
function growth(figures: Figure[]): Figure {
  const peakOf = (size: number) =>
    figures.find(({ what }) => what === `generated, ${size} GiB: RSS, peak`)?.value ?? NaN
  const value = peakOf(LARGE) / peakOf(1)
  return {
    what: `RSS at ${LARGE} GiB, in that at 1 GiB`,
    unit: '',
    value,
    target: 1.1,
    met: value <= 1.1,
  }
}

interface BackupJob {
  run(ends: Ends): Promise<Moved>
  close(): Promise<void>
}

async function backupJob(folder: string): Promise<BackupJob> {
  mountKeys(folder)
  const spec = { clusterRef: { name: 'a' }, storage: { s3: STORAGE } }
  const identity = { apiVersion: API_VERSION, kind: 'VecBackup', metadata: NAME }
  const api = await startJobApi(VecBackup, { ...identity, spec }, folder)
  let run = 0
  return {
    close: () => api.close(),
    async run({ endpoint }) {
      run += 1
      const plan: BackupPlan = {
        ...{ resource: 'vecbackups', ...NAME, uid: api.uid, run, hash: 'hash' },
        cluster: { namespace: 'ns', name: 'a', replicas: 1, tls: false },
        // Each time into a separate folder: what is there already would not be moved.
        storage: { ...STORAGE, endpoint, prefix: `run-${process.pid}-${run}` },
        ...{ method: 'Node', parallelism: 1 },
      }
      const env = {
        VEC_CREDENTIALS: join(folder, 'credentials'),
        [JOB_ENV.plan]: encodePlan(plan, ''),
      }
      const all = await taken(jobCommand(['backup', 'run', 'ns/b'], { ...api.env, ...env }))
      const lines = all.output.trim().split('\n')
      const uploads = lines
        .map((line) => JSON.parse(line) as { msg: string; bytes: number; seconds: number })
        .filter(({ msg }) => msg.startsWith('uploaded '))
      const [upload] = uploads
      if (upload === undefined) throw new Error(`the Job uploaded nothing: ${all.output}`)
      return { ...all, bytes: upload.bytes, movingSeconds: upload.seconds }
    },
  }
}

interface Made {
  name: string
  size: number
}

/** Of a file that was created a moment ago, as that of the Job: what is new still goes to the disk. */
async function pipe(client: string, ends: Ends): Promise<Moved> {
  const snapshots = `${ends.engine}/collections/docs/snapshots`
  const response = await fetch(`${snapshots}?wait=true`, { method: 'POST' })
  const { result } = (await response.json()) as { result: Made }
  try {
    return await piped(client, ends, result)
  } finally {
    await fetch(`${snapshots}/${result.name}?wait=true`, { method: 'DELETE' })
  }
}

let piece = 0

async function piped(
  client: string,
  { engine, endpoint }: Ends,
  { name, size }: Made,
): Promise<Moved> {
  piece += 1
  const url = `${engine}/collections/docs/snapshots/${name}`
  const target = `s3://backups/pipe-${process.pid}/${piece}`
  const flags = `--endpoint-url ${endpoint} --expected-size ${size} --no-progress`
  const pipe = `set -e; curl -sSf ${url} | ${client} s3 cp - ${target} ${flags}; times`
  const env = {
    ...{ PATH: process.env['PATH'], AWS_ACCESS_KEY_ID: KEYS.accessKeyId },
    ...{ AWS_SECRET_ACCESS_KEY: KEYS.secretAccessKey, AWS_DEFAULT_REGION: 'us-east-1' },
  }
  const all = await taken({ file: 'sh', args: ['-c', pipe], env })
  return { ...all, cpuSeconds: timesIn(all.output), bytes: size, movingSeconds: all.seconds }
}

/** Of the two processes, as `times` of the shell prints them in its second line: `0m1.5s 0m0.2s`. */
function timesIn(output: string): number {
  const line = output.trim().split('\n').at(-1) ?? ''
  const seconds = [...line.matchAll(/(\d+)m([\d.]+)s/g)].map(
    ([, minutes, rest]) => 60 * Number(minutes) + Number(rest),
  )
  return seconds.reduce((sum, each) => sum + each, 0)
}
