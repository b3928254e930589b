/**
 * `cluster post-render <release> [partition=<n>] [secret-checksum=<text>]`: Helm's post-renderer. Reads the
 * rendered manifests from standard input and writes them to standard output with what the engine's chart
 * has no value for: the partition of the StatefulSet, the checksum of a Secret that its pods do not read
 * again, and a client Service without the port of the nodes where it can be reached from outside. All
 * other bytes are unchanged, so that Helm reads the same values.
 */
import { SECRET_CHECKSUM } from '../../crds/contract/names.ts'
import { isCollection, isScalar, parseDocument, type Document } from 'yaml'

export interface Adjustments {
  /** Name of the StatefulSet and of the client Service. */
  release: string
  /** Absent: that of the chart. */
  partition?: number | undefined
  /** Absent: that of the rendered Secret. */
  secretChecksum?: string | undefined
}

/** Helm separates manifests at the same lines. */
const DOCUMENT_START = /^(?=---)/m
/** The chart's name of port 6335, on which a node trusts every caller, with or without an API key. */
const PEER_PORT = 'p2p'
/** A Service of one of these types can be reached from outside the Kubernetes cluster. */
const EXTERNAL_TYPES: readonly unknown[] = ['LoadBalancer', 'NodePort']

const PARTITION_PATH = ['spec', 'updateStrategy', 'rollingUpdate', 'partition']
const CHECKSUM_PATH = ['spec', 'template', 'metadata', 'annotations', SECRET_CHECKSUM]

export function adjustManifests(
  manifests: string,
  { release, partition, secretChecksum }: Adjustments,
): string {
  const replacements = [
    { path: PARTITION_PATH, value: partition },
    { path: CHECKSUM_PATH, value: secretChecksum },
  ].filter(({ value }) => value !== undefined)
  return manifests
    .split(DOCUMENT_START)
    .map((manifest) => removePeerPort(manifest, release))
    .map((manifest) => replaceIn(manifest, release, replacements))
    .join('')
}

interface Replacement {
  path: string[]
  value: number | string | undefined
}

/**
 * Replaces values of the StatefulSet. A chart that does not set one is left alone: without a partition,
 * Kubernetes updates the pods by itself.
 */
function replaceIn(manifest: string, release: string, replacements: Replacement[]): string {
  if (replacements.length === 0 || !/\bStatefulSet\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  if (!isNamed(document, 'StatefulSet', release)) return manifest
  const ranges = replacements.flatMap(({ path, value }) => {
    const node = document.getIn(path, true)
    if (!isScalar(node) || node.range == null) return []
    const [start, end] = node.range
    return [{ start, end, text: JSON.stringify(value) }]
  })
  // From the end: the positions of the others stay.
  return ranges
    .toSorted((a, b) => b.start - a.start)
    .reduce((text, one) => text.slice(0, one.start) + one.text + text.slice(one.end), manifest)
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
