/** What the service observes of a world here, with its own ports, and what it says about it. */
import { pino } from 'pino'
import type { VecCluster } from '../../crds/cluster.ts'
import { shardTargets } from '../../hooks/cluster/shards/next-step.ts'
import type { ShardsSummary } from '../../hooks/cluster/shards/summary.ts'
import { EngineConnections } from '../../jobs/clients/engine/transport.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { consensusPort } from '../../metacontroller/ports/cluster.ts'
import { shardPorts } from '../../metacontroller/ports/shards.ts'
import { cluster, context, statefulSet } from '../builders.ts'
import { condition, sync } from '../hooks/cluster/decisions.ts'
import { observedShards } from '../hooks/cluster/shards.ts'
import { CLUSTER, NAMESPACE, TEMPLATE, type NodesWorld } from './world.ts'

const DEADLINE_MS = 60_000

/** Status, reason and message of the conditions, and the work on shards that would be given to a Job. */
export interface Said {
  consensus: (string | undefined)[] | undefined
  shardsPlaced: (string | undefined)[] | undefined
  repair: ShardsSummary['plans']['repair']
  lost: readonly number[]
}

export class Operator {
  readonly #world: NodesWorld
  readonly #connections = new EngineConnections()
  readonly #ports
  /** As the last answer has it: the nodes are recorded while all of them are members. */
  #status: VecCluster['status'] = { phase: 'Running', appliedRun: 1 }

  constructor(world: NodesWorld) {
    this.#world = world
    const log = pino({ level: 'silent' })
    const authorization = `Bearer ${world.api.token}`
    const authorize = async () => ({ headers: { authorization }, dispatcher: undefined })
    const kubernetes = new Kubernetes({ server: world.api.url, authorize }, log)
    const secret = async () => undefined
    const engines = {
      ...{ kubernetes, connections: this.#connections, route: 'proxy' as const, log },
      ...{ secret, freshSecret: secret, now: () => context.now },
    }
    this.#ports = { ...shardPorts(engines), consensus: consensusPort(engines) }
  }

  async observe(annotations: Record<string, string> = {}): Promise<Said> {
    const { replicas } = this.#world
    const connection = { namespace: NAMESPACE, name: CLUSTER, tls: false, replicas }
    const signal = AbortSignal.timeout(DEADLINE_MS)
    const consensus = await this.#ports.consensus(connection, signal)
    const parts = {
      cluster: cluster({
        ...{ namespace: NAMESPACE, name: CLUSTER, annotations },
        ...{ spec: { replicas }, status: this.#status },
      }),
      ...{ statefulSet: statefulSet(replicas), consensus },
    }
    const shards = await this.#ports.shards(
      {
        ...{ connection, claimTemplate: TEMPLATE, moves: [], uid: 'uid' },
        recorded: this.#status?.nodes ?? [],
        targets: (facts) => shardTargets(observedShards(parts), facts),
      },
      signal,
    )
    const decision = sync(observedShards({ ...parts, shards }), context)
    const { nodes } = decision.status
    this.#status = { phase: 'Running', appliedRun: 1, ...(nodes !== undefined && { nodes }) }
    return {
      consensus: condition(decision, 'Consensus'),
      shardsPlaced: condition(decision, 'ShardsPlaced'),
      repair: shards.plans.repair,
      lost: shards.targets.repair.lost,
    }
  }

  async close(): Promise<void> {
    await this.#connections.close()
  }
}
