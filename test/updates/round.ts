/**
 * One update under one writer and one reader, and the verdict of the oracle on each node's own replicas. With
 * `lastReplica`, node 2, which is updated first, holds the only replica of a shard when the update begins.
 */
import { setTimeout } from 'node:timers/promises'
import type { LocalCluster } from '../cluster/local.ts'
import { Dice } from '../faults/machine/dice.ts'
import { ask, pathOf } from '../hard/ask.ts'
import { Ledger } from '../hard/ledger.ts'
import { compareAtRest, comparisons, summaryOf } from '../hard/oracle.ts'
import { readReplicas, unsettled, viewOf } from '../hard/replicas.ts'
import { KEYED, PASSING, PLAIN, Traffic } from '../hard/traffic.ts'
import {
  met,
  NODES,
  OperatorSubject,
  podImages,
  podUids,
  podUrls,
  serviceUrl,
  type Subject,
} from './subject.ts'

export interface RoundOptions {
  seed: number
  from: string
  /** Versions that every node must run on the way. */
  between: readonly string[]
  to: string
  lastReplica: boolean
}

export interface Result {
  /** What must not be: points lost or changed, and whatever the operator should have prevented. */
  findings: string[]
  seconds: number
  /** Points compared, each on each node. */
  compared: number
  reads: { all: number; failed: number; wrong: number; failedTwice: number }
  writes: { all: number; failed: number; failedTwice: number }
  /** Milliseconds. */
  readLatencies: { atRest: number[]; during: number[] }
  writeLatencies: { atRest: number[]; during: number[] }
  /** The answers to operations that failed and failed again. */
  repeatedFailures: string[]
  /** What the subject said while it waited for another replica. */
  stopped?: string
}

const COLLECTIONS = [PLAIN, KEYED, PASSING]
const POINTS = 1_500
const SHARDS = 3
const COPIES = 2
const REST_MS = 20_000
const UPDATE_MS = 1_200_000
const WHOLE_MS = 180_000
/** How long an update that has stopped is watched. */
const STOPPED_MS = 60_000
/** A read that failed is repeated once. */
const READ_RETRY_MS = 400
const UPDATED_FIRST = NODES.length - 1

export async function runRound(
  cluster: LocalCluster,
  subject: Subject,
  { seed, from, between, to, lastReplica }: RoundOptions,
): Promise<Result> {
  const { namespace } = subject
  await cluster.kubectl(['create', 'namespace', namespace])
  try {
    await subject.install(from)
    const service = await serviceUrl(cluster, namespace)
    const ledger = new Ledger()
    const traffic = new Traffic({
      ...{ ledger, dice: new Dice(seed), urls: () => [service] },
      ...{ replicas: COPIES, shards: SHARDS, retryMs: READ_RETRY_MS, repeatsWrites: true },
    })
    await traffic.fill(POINTS)
    if (lastReplica) await dropSister(cluster, namespace)
    traffic.start()
    await setTimeout(REST_MS)
    const atRest = { reads: traffic.latencies.splice(0), writes: traffic.writeLatencies.splice(0) }
    const started = Date.now()
    const watch = new Update(cluster, subject, { between, to })
    try {
      await subject.update(to)
      if (lastReplica) await watch.last()
      await watch.end()
    } finally {
      await traffic.stop()
    }
    const seconds = Math.round((Date.now() - started) / 1000)
    const judged = await judge(cluster, namespace, ledger)
    const { reads, writes, failedTwice } = traffic
    return {
      findings: [...watch.findings, ...judged.findings],
      ...{ seconds, compared: judged.compared },
      reads: {
        all: reads.good + reads.failed + reads.wrong,
        ...{ failed: reads.failed, wrong: reads.wrong, failedTwice: failedTwice.reads },
      },
      writes: {
        all: writes.good + writes.failed,
        ...{ failed: writes.failed, failedTwice: failedTwice.writes },
      },
      readLatencies: { atRest: atRest.reads, during: traffic.latencies },
      writeLatencies: { atRest: atRest.writes, during: traffic.writeLatencies },
      repeatedFailures: [...traffic.unserved.map(({ text }) => text), ...traffic.repeatedFailures],
      ...(watch.stopped !== undefined && { stopped: watch.stopped }),
    }
  } finally {
    await cluster.kubectl(['delete', 'namespace', namespace, '--wait=false'])
  }
}

class Update {
  readonly findings: string[] = []
  stopped: string | undefined
  readonly #cluster: LocalCluster
  readonly #subject: Subject
  readonly #between: readonly string[]
  readonly #to: string
  /** `<pod> <image>` of each pod that was there. */
  readonly #seen = new Set<string>()

  constructor(
    cluster: LocalCluster,
    subject: Subject,
    { between, to }: { between: readonly string[]; to: string },
  ) {
    this.#cluster = cluster
    this.#subject = subject
    this.#between = between
    this.#to = to
  }

  /** The operator must not restart the node of the last replica; the chart knows nothing of it. */
  async last(): Promise<void> {
    const subject = this.#subject
    if (!(subject instanceof OperatorSubject)) return
    const before = await podUids(this.#cluster, subject.namespace)
    try {
      const isStopped = async () => (await subject.progress())?.reason === 'LastCopy'
      await met('the update stops or ends', UPDATE_MS, async () => {
        return (await isStopped()) || (await subject.unfinished(this.#to)) === undefined
      })
      if (await isStopped()) await setTimeout(STOPPED_MS)
      else this.findings.push('the update did not stop')
    } catch (error) {
      this.findings.push(String(error))
    }
    const after = await podUids(this.#cluster, subject.namespace)
    if (after.join() !== before.join()) this.findings.push('a node was restarted')
    this.stopped = (await subject.progress())?.message
    await subject.patch({ healing: { replicas: true } })
  }

  async end(): Promise<void> {
    let why: string | undefined
    try {
      await met('the update ends', UPDATE_MS, async () => {
        for (const pod of await podImages(this.#cluster, this.#subject.namespace)) {
          this.#seen.add(pod)
        }
        why = await this.#subject.unfinished(this.#to)
        return why === undefined
      })
    } catch (error) {
      this.findings.push(`${String(error)}: ${why ?? ''}`)
    }
    for (const version of this.#between) {
      const ran = [...this.#seen].filter((pod) => pod.endsWith(`:v${version}`))
      if (ran.length < NODES.length) this.findings.push(`${ran.length} nodes ran ${version}`)
    }
  }
}

/** Leaves the node that is updated first with the only replica of one of its shards. */
async function dropSister(cluster: LocalCluster, namespace: string): Promise<void> {
  const urls = await podUrls(cluster, namespace)
  const url = urls[UPDATED_FIRST] ?? ''
  const view = await viewOf(url, PLAIN)
  const shard = view?.local_shards[0]?.shard_id
  const sister = view?.remote_shards.find(({ shard_id }) => shard_id === shard)
  if (sister === undefined) throw new Error(`node ${UPDATED_FIRST} has no replica of ${PLAIN}`)
  const drop_replica = { shard_id: shard, peer_id: sister.peer_id }
  await ask(url, 'POST', `${pathOf(PLAIN)}/cluster`, { drop_replica })
  await met('the replica is gone', WHOLE_MS, async () => {
    const all = await readPlacement(urls)
    return all.every((replicas) => replicas.filter((id) => id === shard).length === 1)
  })
}

/** Shard of each replica, as each node reports it. */
function readPlacement(urls: readonly string[]): Promise<number[][]> {
  return Promise.all(
    urls.map(async (url) => {
      const view = await viewOf(url, PLAIN)
      return [...(view?.local_shards ?? []), ...(view?.remote_shards ?? [])].map(
        ({ shard_id }) => shard_id,
      )
    }),
  )
}

/** Once the nodes agree, each node's own replicas against what was acknowledged. Nothing is written meanwhile. */
async function judge(cluster: LocalCluster, namespace: string, ledger: Ledger) {
  const findings: string[] = []
  let compared = 0
  const urls = await podUrls(cluster, namespace)
  if (urls.length < NODES.length) findings.push(`${urls.length} nodes are ready`)
  for (const collection of COLLECTIONS) {
    let why: string | undefined
    await met('whole', WHOLE_MS, async () => {
      why = await unsettled(urls, collection)
      return why === undefined
    }).catch(() => findings.push(`${collection}: ${why ?? ''}`))
    const replicas = await readReplicas(urls, collection)
    compared += comparisons(replicas)
    findings.push(...summaryOf(collection, compareAtRest(ledger, collection, replicas).found))
  }
  return { findings, compared }
}
