/** A container of the engine: one node of the engine double, set up by the files its pod mounts. */
import { existsSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { EngineCluster } from '../../doubles/engine/cluster.ts'
import { parseConfig, type EngineConfig } from '../../doubles/engine/config.ts'
import type { Misbehave } from '../../doubles/engine/misbehaviour.ts'
import { startEngineNode, type EngineNode } from '../../doubles/engine/node.ts'
import type { Clock } from '../clock.ts'
import type { Running } from './containers.ts'
import type { Container, Pod } from './objects.ts'
import type { Sandbox } from './sandbox.ts'

const FOLDER = '/qdrant'
const CONFIG_FILES = ['production.yaml', 'local.yaml']

/** The engines of a world. The consensus state of a cluster outlives its pods, as its volumes do. */
export class EngineRuns {
  readonly #clusters = new Map<string, EngineCluster>()
  readonly #clock: Clock
  readonly #nodes = new Set<EngineNode>()

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** What the nodes of a StatefulSet agree on. */
  cluster(namespace: string, name: string): EngineCluster | undefined {
    return this.#clusters.get(`${namespace}/${name}`)
  }

  /** Bad days of every node there is, call by call; without one, good ones again. */
  misbehave(misbehave?: Misbehave): void {
    for (const node of this.#nodes) node.misbehave(misbehave)
  }

  async start(pod: Pod, container: Container, sandbox: Sandbox): Promise<Running> {
    const { namespace = '', name } = pod.metadata
    const [, set = name, ordinal = '0'] = /^(.+)-(\d+)$/.exec(name) ?? []
    const config = readConfig(sandbox)
    const tls = readTls(config, sandbox)
    const cluster = this.#join(namespace, set, config)
    cluster.reshardingEnabled = config.cluster?.resharding_enabled === true
    const node = await startEngineNode({
      ordinal: Number(ordinal),
      cluster,
      version: container.image.replace(/^.*:v/, '').replace(/[-@].*$/, ''),
      config,
      ...(config.service?.enable_tls && tls !== undefined && { tls }),
    })
    const ended = Promise.withResolvers<number>()
    this.#nodes.add(node)
    const end = () => {
      this.#nodes.delete(node)
      void node.close().then(() => ended.resolve(0))
    }
    return {
      log: () => `node ${ordinal} listens on ${node.port}\n`,
      port: (port) => (port === (config.service?.http_port ?? 6333) ? node.port : undefined),
      stop: end,
      kill: end,
      setReady: (ready) => node.setReady(ready),
      ended: ended.promise,
    }
  }

  #join(namespace: string, name: string, config: EngineConfig): EngineCluster {
    const key = `${namespace}/${name}`
    const known = this.#clusters.get(key)
    if (known !== undefined) return known
    const enabled = config.cluster?.enabled !== false
    const made = new EngineCluster({ name, enabled, now: () => this.#clock.now() })
    this.#clusters.set(key, made)
    return made
  }
}

function readConfig(sandbox: Sandbox): EngineConfig {
  // A Secret without the file leaves an empty folder in its place, and the engine open.
  const files = CONFIG_FILES.map((file) => sandbox.path(`${FOLDER}/config/${file}`)).filter(
    (path) => statSync(path, { throwIfNoEntry: false })?.isFile(),
  )
  return parseConfig(
    files.map((path) => readFileSync(path, 'utf8')),
    sandbox.environment(),
  )
}

function readTls({ tls: { cert, key } = {} }: EngineConfig, sandbox: Sandbox) {
  if (cert === undefined || key === undefined) return undefined
  const [certFile, keyFile] = [cert, key].map((path) =>
    sandbox.path(path.startsWith('/') ? path : join(FOLDER, path)),
  )
  if (!existsSync(certFile ?? '') || !existsSync(keyFile ?? '')) return undefined
  return { cert: readFileSync(certFile ?? '', 'utf8'), key: readFileSync(keyFile ?? '', 'utf8') }
}
