/** Makes the calls a decision about a VecMigration asks for. */
import type { MigrationStatus } from '../../crds/migration.ts'
import { carryOut, type Writes } from '../carry-out.ts'
import type { Desired } from '../protocol.ts'
import type { MigrationPorts } from './ports.ts'

/** A decision: what goes on the wire, and what is to be written besides it. */
export interface Decision extends Desired<MigrationStatus>, Writes {}

/** What must be done stands before what only tells of it. */
export async function act(decision: Decision, ports: MigrationPorts): Promise<Decision> {
  await carryOut(decision, ports)
  for (const event of decision.events ?? []) await ports.writeEvent(event)
  return decision
}
