/** The hooks of VecCluster: observe, decide, act. */
import { VecCluster } from '../../crds/cluster.ts'
import { READINESS_CHECK_SECONDS } from '../../crds/limits.ts'
import { Passes } from '../pass.ts'
import type { Desired } from '../protocol.ts'
import { JOB_CHILD_KINDS } from '../rights.ts'
import { room, type Room } from '../room.ts'
import { act } from './act.ts'
import { customize } from './customize.ts'
import { finalize } from './finalize.ts'
import { observe, observeEnd } from './observe.ts'
import type { ClusterPorts, PodConsensus } from './ports.ts'
import { sync } from './sync.ts'
import { Turns } from './turns.ts'

/** Two looks at consensus within one readiness check would tell the same. */
const CONSENSUS_FRESH_SECONDS = READINESS_CHECK_SECONDS / 2

export function clusterRoom(ports: ClusterPorts): Room {
  const turns = new Turns()
  const reach = { ports, turns, consensus: new Passes<PodConsensus[]>(CONSENSUS_FRESH_SECONDS) }
  const acted = async <T>(desired: Desired<T>) => {
    await act(desired, ports)
    return desired
  }
  return room({
    resource: VecCluster,
    childKinds: JOB_CHILD_KINDS,
    customize,
    finalizeReads: ['replicas'],
    async sync(request, context) {
      const observed = await observe(request, reach, context)
      const desired = sync(observed, context)
      if (makesJob(desired)) turns.grant(request.parent.metadata.uid, context.now)
      return acted(desired)
    },
    async finalize(request, context) {
      return acted(finalize(await observeEnd(request, reach), context))
    },
  })
}

function makesJob({ children }: Desired<unknown>): boolean {
  return children.some((child) => child.kind === 'Job' && child['spec'] !== undefined)
}
