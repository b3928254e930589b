/** Takes out of answers what differs from run to run, so that two can be compared. */

const LEFT_OUT = new Set(['time', 'usage', 'commit'])
/** Present or not, and of which type, is what matters. */
const VARYING = new Set([
  'segments_count',
  'operation_id',
  'uri',
  'term',
  'last_update',
  'creation_time',
  'checksum',
  'message_send_failures',
  'update_queue',
])
/** Lists in no order. */
const SETS = new Set(['collections', 'aliases', 'remote_shards', 'local_shards', 'shard_keys'])

export function normal(value: unknown, peers: ReadonlyMap<number, string>): unknown {
  if (typeof value === 'number') return peers.get(value) ?? value
  if (typeof value === 'string') return normalText(value)
  if (Array.isArray(value)) return value.map((inner) => normal(inner, peers))
  if (typeof value !== 'object' || value === null) return value
  const entries = Object.entries(value)
    .filter(([field]) => !LEFT_OUT.has(field))
    .map(([field, inner]) => [
      peers.get(Number(field)) ?? field,
      VARYING.has(field) && inner !== null
        ? `<${typeof inner}>`
        : ordered(field, normal(inner, peers)),
    ])
    .sort(([one], [other]) => (String(one) < String(other) ? -1 : 1))
  return Object.fromEntries(entries)
}

function ordered(field: string, value: unknown): unknown {
  if (!SETS.has(field) || !Array.isArray(value)) return value
  const texts = value.map((item) => JSON.stringify(item)).sort()
  return texts.map((item) => JSON.parse(item) as unknown)
}

/** Where in a body the parser stopped is its own affair. */
function normalText(text: string): string {
  // Whether the optimisers have come to rest is a matter of moments.
  if (text === 'yellow') return 'green'
  return text
    .replace(/ at line \d+ column \d+/g, '')
    .replace(/-\d+-\d{4}(-\d\d){5}\.snapshot/g, '-<peer>-<time>.snapshot')
}
