/** How many Events the operator has for one object in one minute, over a whole scenario. */
import { MANAGED_BY } from '../../crds/contract/names.ts'
import { MAX_EVENTS_PER_MINUTE, RATE_LIMITED } from '../../metacontroller/ports/events.ts'
import type { World } from '../world/world.ts'
import { eventsIn } from './scenario.ts'

/** `2026-11-21T16:22`, of an instant. */
const TO_THE_MINUTE = 16

/** A line for each object with more Events in a minute than users can read, written or suppressed. */
export async function tooManyEvents(world: World, namespaces: string[]): Promise<string[]> {
  const events = await Promise.all(namespaces.map((namespace) => eventsIn(world, namespace)))
  const byMinute = Map.groupBy(
    events.flat().filter(({ source }) => source?.component === MANAGED_BY),
    ({ involvedObject: { kind, namespace, name, uid }, firstTimestamp }) =>
      `${kind} ${namespace}/${name} (${uid}) at ${firstTimestamp.slice(0, TO_THE_MINUTE)}`,
  )
  const written = [...byMinute]
    .filter(([, those]) => those.length > MAX_EVENTS_PER_MINUTE)
    .map(([where, those]) => `${where}: ${those.map(({ reason }) => reason).join(', ')}`)
  return [...written, ...heldBack(await world.serviceLog(), namespaces)]
}

function heldBack(log: string, namespaces: string[]): string[] {
  const isOfThese = (line: string) => namespaces.some((name) => line.includes(`"${name}"`))
  return log.split('\n').filter((line) => line.includes(RATE_LIMITED) && isOfThese(line))
}
