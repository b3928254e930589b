/** What the tests of the commands share: an API server, a VecCluster in it, a helm on PATH, and a run of the CLI. */
import { existsSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { encodePlan, JOB_ENV, parseProgress, type UpgradePlan } from '../../crds/contract/job.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { ANNOTATIONS, API_VERSION } from '../../crds/contract/names.ts'
import { main } from '../../jobs/main.ts'
import { jobLog } from '../../jobs/log.ts'
import type { Clock } from '../../jobs/clock.ts'
import { clusterSpec } from '../builders.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { startEngineNode, type EngineNode } from '../doubles/engine/node.ts'
import type { ApiClient, ApiObject } from '../world/client.ts'
import { START, mountCredential, openApi, openNamespace, podEnv } from './job-fixture.ts'

export const HELM_FOLDER = fileURLToPath(new URL('../doubles/helm', import.meta.url))

export interface Result {
  code: number
  log: string
}

export type JobWorld = Awaited<ReturnType<typeof jobWorld>>

export async function jobWorld(t: Test) {
  const folder = t.testdir({})
  const nodes = new Map<string, EngineNode>()
  const { server, api } = await openApi(t, (pod) => nodes.get(pod)?.port)
  t.teardown(() => Promise.all([...nodes.values()].map((node) => node.close())))
  await openNamespace(api, VecCluster)
  await api.create({
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata: { name: 'a', namespace: 'ns' },
    spec: { version: '1.18.3' },
  })
  const env: NodeJS.ProcessEnv = {
    ...podEnv(folder, server),
    PATH: `${HELM_FOLDER}:${process.env['PATH'] ?? ''}`,
    HELM_DOUBLE: join(folder, 'helm.json'),
  }
  const cluster = await required(api, API_VERSION, 'VecCluster', 'a')
  const uid = cluster.metadata.uid ?? ''

  return {
    api,
    resources: server.resources,
    env,
    uid,
    nodes,
    /** Settings of the helm double. */
    helm: (settings: object) => writeFileSync(join(folder, 'helm.json'), JSON.stringify(settings)),
    /** A file that holds helm for as long as it is there. */
    hold: holdIn(folder),
    credential: (name: string, key: string, value: string) =>
      mountCredential(folder, name, [key, value]),
    async startEngine(size: number, cluster = new EngineCluster({ name: 'vec-a' })) {
      for (let ordinal = 0; ordinal < size; ordinal += 1) {
        const pod = `vec-a-${ordinal}`
        await api.create(podOf(pod))
        nodes.set(pod, await startEngineNode({ ordinal, cluster }))
      }
      return cluster
    },
    object: (apiVersion: string, kind: string, name: string) =>
      api.get({ apiVersion, kind, namespace: 'ns', name }),
    async progress() {
      const { metadata } = await required(api, API_VERSION, 'VecCluster', 'a')
      return parseProgress(metadata.annotations?.[ANNOTATIONS.progress], uid)
    },
    plan: (parts: Partial<UpgradePlan> = {}) => upgradePlan(uid, parts),
    run: (verb: string, plan: object, options: RunOptions = {}) =>
      runJob(
        ['cluster', verb, 'ns/a'],
        { ...env, [JOB_ENV.plan]: encodePlan(plan, 'spec') },
        options,
      ),
  }
}

function holdIn(folder: string) {
  const file = join(folder, 'hold')
  return {
    file,
    set: () => writeFileSync(file, ''),
    release: () => existsSync(file) && rmSync(file),
  }
}

export interface RunOptions {
  time?: Clock
  signal?: AbortSignal
  /** Memory limit of the Job. */
  memoryBytes?: number
  /** Called with each line of the log. */
  onLine?: (line: string) => void
}

/** Runs the CLI in this process. Returns its exit code, and its log as text. */
export async function runJob(
  args: string[],
  env: NodeJS.ProcessEnv,
  {
    time = instantClock(),
    signal = new AbortController().signal,
    memoryBytes,
    onLine,
  }: RunOptions = {},
): Promise<Result> {
  let log = ''
  const output = {
    write: (line: string) => {
      log += line
      onLine?.(line)
    },
  }
  const code = await main({
    arguments: args,
    env,
    log: jobLog({ LOG_LEVEL: 'DEBUG', LOG_FORMAT: 'text' }, output),
    time,
    signal,
    memoryBytes,
    print: output.write,
    printError: output.write,
  })
  return { code, log }
}

/** Time that passes only in waits, which end immediately; `onSleep` is called during each. */
export function instantClock(onSleep: (slept: number) => unknown = () => undefined): Clock {
  let now = START.getTime()
  let slept = 0
  return {
    now: () => new Date(now),
    monotonicMs: () => now - START.getTime(),
    async sleep(ms, signal) {
      signal?.throwIfAborted()
      now += ms
      await onSleep((slept += 1))
    },
  }
}

/** The same, on which more time passes by itself. */
export function laterClock(elapsedMs: () => number): Clock {
  const clock = instantClock()
  return {
    ...clock,
    now: () => new Date(clock.now().getTime() + elapsedMs()),
    monotonicMs: () => clock.monotonicMs() + elapsedMs(),
  }
}

export const TAKEN_OVER = /pod pod-2 works on this run: this pod stops/

/** Writes into the report of a resource that another pod works for it. */
export async function takeOver(
  api: ApiClient,
  { kind, name }: { kind: string; name: string },
): Promise<void> {
  const reference = { apiVersion: API_VERSION, kind, namespace: 'ns', name }
  // A report of the first pod that is in progress may replace the first one.
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const { metadata } = await required(api, API_VERSION, kind, name)
    const progress = JSON.parse(metadata.annotations?.[ANNOTATIONS.progress] ?? '{}') as object
    const annotations = {
      [ANNOTATIONS.progress]: JSON.stringify({ ...progress, runner: 'pod-2' }),
    }
    await api.patch(reference, { metadata: { annotations } })
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

function upgradePlan(uid: string, parts: Partial<UpgradePlan>): UpgradePlan {
  const spec = parts.spec ?? clusterSpec()
  return {
    resource: 'vecclusters',
    namespace: 'ns',
    name: 'a',
    uid,
    run: 1,
    hash: 'hash-1',
    generation: 1,
    secretFingerprints: {},
    release: 'vec-a',
    chart: 'qdrant',
    repository: 'https://charts.example/engine',
    version: spec.version.replace(/^v/, ''),
    values: { fullnameOverride: 'vec-a', replicaCount: spec.replicas },
    spec,
    acceptedRisks: [],
    engine: { tls: false, p2p: true },
    ...parts,
  }
}

export function podOf(name: string, labels: Record<string, string> = {}) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: 'ns', labels },
    spec: { containers: [{ name: 'main', image: 'test' }] },
    status: { phase: 'Running' },
  }
}

async function required(api: ApiClient, apiVersion: string, kind: string, name: string) {
  const object: ApiObject | undefined = await api.get({ apiVersion, kind, namespace: 'ns', name })
  if (object === undefined) throw new Error(`there is no ${kind} ${name}`)
  return object
}
