/** Makes the calls a decision about a VecRestore asks for. */
import type { RestoreStatus } from '../../crds/restore.ts'
import { carryOut, type Writes } from '../carry-out.ts'
import type { Desired } from '../protocol.ts'
import type { RestorePorts } from './ports.ts'

/** A decision: what goes on the wire, and what is to be written besides it. */
export interface Decision extends Desired<RestoreStatus>, Writes {}

/** What must be done stands before what only tells of it. */
export async function act(decision: Decision, ports: RestorePorts): Promise<Decision> {
  await carryOut(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
}
