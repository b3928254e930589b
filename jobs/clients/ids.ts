/** Ids of points as JSON, and the order in which the engine gives them (facts 7.1). */

const NUMBER = /^(0|[1-9]\d*)$/
const UUID = /^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$/

/** Whether it is written as the engine writes ids: only those have an order that is known. */
export function isId(id: string): boolean {
  return NUMBER.test(id) || UUID.test(id)
}

/** Numbers before UUIDs, each in ascending order; numbers may have 64 bits. */
export function orderOfIds(one: string, other: string): number {
  if (one === other) return 0
  const isUuid = one.startsWith('"')
  if (isUuid !== other.startsWith('"')) return isUuid ? 1 : -1
  if (!isUuid && one.length !== other.length) return one.length - other.length
  return one < other ? -1 : 1
}
