/** The real engine: a process for each node on loopback, each in a folder of its own, ended by its id. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import {
  freePort,
  startProcess,
  stopProcess,
  waitFor,
  type ProcessRecord,
} from '../../cluster/process.ts'
import { nodesOf, type Setting, type Subject } from './subject.ts'

/** The defaults of the image, which the engine reads from a configuration file. */
const STORAGE = {
  on_disk_payload: true,
  optimizers: {
    deleted_threshold: 0.2,
    vacuum_min_vector_number: 1000,
    default_segment_number: 0,
    flush_interval_sec: 5,
    indexing_threshold_kb: 10_000,
  },
  hnsw_index: {
    m: 16,
    ef_construct: 100,
    full_scan_threshold_kb: 10_000,
    max_indexing_threads: 0,
    on_disk: false,
  },
}

export interface RealSubject extends Subject {
  /** Where each node answers gRPC, by ordinal. */
  grpcUrls: string[]
  /** Process ids, by ordinal. */
  pids: number[]
  /** Kills a node and starts it again on what it has stored; answers once it is ready. */
  restart(ordinal: number): Promise<void>
  /** Another node joins; answers once it is ready. */
  add(): Promise<void>
}

interface Where {
  host?: string
  /** One for each node, by ordinal: then each answers at `port`. */
  hosts?: string[]
  /** Port of the first node, for cases that need a fixed one. */
  port?: number
  /** Default: as many as the size has. */
  nodes?: number
  /** A folder for what each node stores, by ordinal: perhaps a volume that is small. */
  volumes?: string[]
}

export async function realSubject(
  bin: string,
  { size, service, env: variables = {}, resharding = false }: Setting,
  { host: only = '127.0.0.1', hosts, port, nodes = nodesOf(size), volumes }: Where = {},
): Promise<RealSubject> {
  const folder = mkdtempSync(join(tmpdir(), 'vec-engine-'))
  const records: ProcessRecord[] = []
  const close = async () => {
    await Promise.all(records.map(stopProcess))
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const urls: string[] = []
    const grpcUrls: string[] = []
    let first: string | undefined
    const add = async () => {
      const ordinal = records.length
      const host = hosts?.[ordinal] ?? only
      const isAsked = ordinal === 0 || hosts !== undefined
      const http = (isAsked ? port : undefined) ?? (await freePort())
      const grpc = await freePort()
      const p2p = await freePort()
      const uri = `http://${host}:${p2p}`
      const home = join(folder, String(ordinal))
      mkdirSync(home)
      const config = {
        log_level: 'WARN',
        telemetry_disabled: true,
        storage: {
          ...STORAGE,
          storage_path: join(volumes?.[ordinal] ?? home, 'storage'),
          snapshots_path: join(home, 'snapshots'),
        },
        service: { ...service, host, http_port: http, grpc_port: grpc },
        cluster: {
          enabled: size !== 'alone',
          p2p: { port: p2p },
          ...(resharding && { resharding_enabled: true }),
        },
      }
      const file = join(home, 'config.yaml')
      writeFileSync(file, stringify(config))
      const joins = size === 'alone' ? [] : ['--uri', uri, ...(first ? ['--bootstrap', first] : [])]
      const args = ['--config-path', file, '--disable-telemetry', ...joins]
      const log = join(folder, `${ordinal}.log`)
      const spec = { name: `node ${ordinal}`, command: bin, args, log }
      const env = { ...variables, QDRANT_INIT_FILE_PATH: join(home, 'initialized') }
      const record = startProcess({ ...spec, env }, folder)
      records.push(record)
      first ??= uri
      const url = `http://${host}:${http}`
      urls.push(url)
      grpcUrls.push(`http://${host}:${grpc}`)
      await waitFor(`node ${ordinal}`, () => isReady(url), { process: record })
    }
    while (records.length < nodes) await add()
    const whileDown = async (ordinal: number, meanwhile: () => Promise<void>) => {
      const record = records[ordinal]
      if (record === undefined) throw new Error(`there is no node ${ordinal}`)
      process.kill(record.pid, 'SIGKILL')
      await stopProcess(record)
      await meanwhile()
      records[ordinal] = startProcess(record, folder)
      await waitFor(`node ${ordinal}`, () => isReady(urls[ordinal] ?? ''), {
        process: records[ordinal],
      })
    }
    const restart = (ordinal: number) => whileDown(ordinal, async () => undefined)
    return { urls, grpcUrls, pids: records.map(({ pid }) => pid), whileDown, restart, add, close }
  } catch (error) {
    await close()
    throw error
  }
}

async function isReady(url: string): Promise<boolean> {
  try {
    return (await fetch(`${url}/readyz`)).status === 200
  } catch {
    return false
  }
}
