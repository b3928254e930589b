/**
 * `cluster post-render <release> [<partition>]`: Helm's post-renderer. Reads the rendered manifests from
 * standard input and writes them to standard output with what the engine's chart has no value for: the
 * partition of the StatefulSet, and a client Service without the port of the nodes where it can be
 * reached from outside. Every other byte stays, so that Helm reads the same values.
 */
import { isCollection, isScalar, parseDocument, type Document } from 'yaml'

export interface Adjustments {
  /** Name of the StatefulSet and of the client Service. */
  release: string
  /** Absent: that of the chart. */
  partition?: number | undefined
}

/** Helm separates manifests at the same lines. */
const DOCUMENT_START = /^(?=---)/m
/** The chart's name of port 6335, on which a node trusts every caller, with or without an API key. */
const PEER_PORT = 'p2p'
/** A Service of one of these types can be reached from outside the Kubernetes cluster. */
const EXTERNAL_TYPES: readonly unknown[] = ['LoadBalancer', 'NodePort']

export function adjustManifests(manifests: string, { release, partition }: Adjustments): string {
  return manifests
    .split(DOCUMENT_START)
    .map((manifest) => {
      const withoutPort = removePeerPort(manifest, release)
      return partition === undefined
        ? withoutPort
        : replacePartition(withoutPort, { release, partition })
    })
    .join('')
}

/** A chart that does not set a partition is left alone: Kubernetes then updates its pods by itself. */
function replacePartition(manifest: string, { release, partition }: Required<Adjustments>): string {
  if (!/\bStatefulSet\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  const node = document.getIn(['spec', 'updateStrategy', 'rollingUpdate', 'partition'], true)
  const isTarget = isNamed(document, 'StatefulSet', release)
  if (!isTarget || !isScalar(node) || node.range == null) return manifest
  const [start, end] = node.range
  return `${manifest.slice(0, start)}${partition}${manifest.slice(end)}`
}

/** The nodes use the headless Service, which keeps the port. */
function removePeerPort(manifest: string, release: string): string {
  if (!/\bService\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  if (!isNamed(document, 'Service', release)) return manifest
  if (!EXTERNAL_TYPES.includes(document.getIn(['spec', 'type']))) return manifest
  const ports = document.getIn(['spec', 'ports'])
  if (!isCollection(ports)) return manifest
  const index = ports.items.findIndex(
    (port) => isCollection(port) && port.get('name') === PEER_PORT,
  )
  if (index === -1) return manifest
  document.deleteIn(['spec', 'ports', index])
  return document.toString({ lineWidth: 0 })
}

function isNamed(document: Document, kind: string, name: string): boolean {
  return document.get('kind') === kind && document.getIn(['metadata', 'name']) === name
}
