/**
 * `cluster post-render <release> <partition>`: Helm's post-renderer. Reads the rendered manifests from
 * standard input and writes them to standard output with the partition of the StatefulSet changed:
 * the engine's chart fixes it at 0. Every other byte stays, so that Helm reads the same values.
 */
import { isScalar, parseDocument } from 'yaml'

export interface Partition {
  /** Name of the StatefulSet. */
  release: string
  partition: number
}

/** Helm separates manifests at the same lines. */
const DOCUMENT_START = /^(?=---)/m

export function withPartition(manifests: string, options: Partition): string {
  return manifests
    .split(DOCUMENT_START)
    .map((manifest) => replacePartition(manifest, options))
    .join('')
}

/** A chart that does not set a partition is left alone: Kubernetes then updates its pods by itself. */
function replacePartition(manifest: string, { release, partition }: Partition): string {
  if (!/\bStatefulSet\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  const isTarget =
    document.get('kind') === 'StatefulSet' && document.getIn(['metadata', 'name']) === release
  const node = document.getIn(['spec', 'updateStrategy', 'rollingUpdate', 'partition'], true)
  if (!isTarget || !isScalar(node) || node.range == null) return manifest
  const [start, end] = node.range
  return `${manifest.slice(0, start)}${partition}${manifest.slice(end)}`
}
