/** Collections that cases of every kind begin with. */
import type { Stage } from '../stage.ts'

export const VECTORS = { vectors: { size: 4, distance: 'Cosine' } }

/** Made, and shown by every node. */
export async function created(stage: Stage, name: string, body: object = VECTORS): Promise<void> {
  const path = `/collections/${encodeURIComponent(name)}`
  await stage.ask('PUT', `${path}?timeout=20`, { body })
  for (let node = 0; node < stage.nodes; node += 1) await showConfig(stage, path, node)
}

async function showConfig(stage: Stage, path: string, node: number): Promise<void> {
  const { status } = await stage.awaited(path, isResult, { node })
  if (status !== 200) throw new Error(`${path} is not shown by node ${node}`)
}

export function isResult(body: unknown): boolean {
  return typeof body === 'object' && body !== null && 'result' in body
}

/** Config as node 0 shows it, without waiting: for unchanged collections. */
export function info(stage: Stage, name: string) {
  return stage.call('GET', `/collections/${encodeURIComponent(name)}`)
}
