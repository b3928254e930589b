/**
 * `cluster post-render <release> [partition=<n>] [secret-checksum=<text>] [image=<repository>@<digest>]
 * [grace-period=<seconds>] [monitor-tls=<JSON>]`: Helm's post-renderer. Reads the rendered manifests from standard
 * input and writes them to standard output with what the engine's chart has no value for: the partition of the
 * StatefulSet (partition.ts decides it), the checksum of a Secret that its pods do not read again, the digest of the
 * engine's image, the grace period of the pods in charts before 1.18, TLS of the ServiceMonitor, and a client Service
 * without the port of the nodes where it can be reached from outside. All other bytes are unchanged, so that Helm reads the
 * same values.
 */
import { Rejected } from '../../crds/contract/errors.ts'
import type { MonitorTls } from '../../crds/contract/job.ts'
import { SECRET_CHECKSUM } from '../../crds/contract/names.ts'
import { isCollection, isMap, isScalar, parseDocument, type Document } from 'yaml'

export interface Adjustments {
  /** Name of the StatefulSet and of the client Service. */
  release: string
  /** Absent: that of the chart. */
  partition?: number | undefined
  /** Absent: that of the rendered Secret. */
  secretChecksum?: string | undefined
  /** Repository and digest of the engine's image. Absent: that of the chart, by its tag. */
  image?: string | undefined
  /** terminationGracePeriodSeconds of the pods, for a chart that has no such value. */
  gracePeriod?: number | undefined
  /** How Prometheus verifies the nodes. Absent: they do not use TLS. */
  monitorTls?: MonitorTls | undefined
}

/** Helm separates manifests at the same lines. */
const DOCUMENT_START = /^(?=---)/m
/** The chart's name of port 6335, on which a node trusts every caller, with or without an API key. */
const PEER_PORT = 'p2p'
/** A Service of one of these types can be reached from outside the Kubernetes cluster. */
const EXTERNAL_TYPES: readonly unknown[] = ['LoadBalancer', 'NodePort']

const PARTITION_PATH = ['spec', 'updateStrategy', 'rollingUpdate', 'partition']
/** The chart compares the tag as a version, so that no value can hold a digest. */
const CONTAINER_PATHS = [
  ['spec', 'template', 'spec', 'initContainers'],
  ['spec', 'template', 'spec', 'containers'],
]
const CHECKSUM_PATH = ['spec', 'template', 'metadata', 'annotations', SECRET_CHECKSUM]

export function adjustManifests(manifests: string, adjustments: Adjustments): string {
  const { release, image, monitorTls } = adjustments
  const changed = manifests
    .split(DOCUMENT_START)
    .map((manifest) => removePeerPort(manifest, release))
    .map((manifest) => (monitorTls ? secureMonitor(manifest, release, monitorTls) : manifest))
    .map((manifest) => addGracePeriod(manifest, adjustments))
    .map((manifest) => addUpdateStrategy(manifest, adjustments))
    .map((manifest) => replaceIn(manifest, adjustments))
  if (image !== undefined && changed.every(({ pinned }) => pinned === 0)) {
    const [repository = ''] = image.split('@')
    // Otherwise the pods would run whatever the tag names, without an error.
    throw new Rejected(
      `spec.image.digest: StatefulSet ${release} has no container with the image ${repository} and a tag`,
    )
  }
  return changed.map(({ manifest }) => manifest).join('')
}

interface Replacement {
  node: unknown
  value: number | string
}

/** Replaces values of the StatefulSet, and counts the images among them. A chart that does not set one is left alone. */
function replaceIn(manifest: string, { release, partition, secretChecksum, image }: Adjustments) {
  const unchanged = { manifest, pinned: 0 }
  if (!/\bStatefulSet\b/.test(manifest)) return unchanged
  if (partition === undefined && secretChecksum === undefined && image === undefined) {
    return unchanged
  }
  const document = parseDocument(manifest)
  if (!isNamed(document, 'StatefulSet', release)) return unchanged
  const images = image === undefined ? [] : pinnedImages(document, image)
  const values = [
    { path: PARTITION_PATH, value: partition },
    { path: CHECKSUM_PATH, value: secretChecksum },
  ].flatMap(({ path, value }) =>
    value === undefined ? [] : [{ node: document.getIn(path, true), value }],
  )
  return { manifest: withReplacements(manifest, [...values, ...images]), pinned: images.length }
}

function addGracePeriod(manifest: string, { release, gracePeriod }: Adjustments): string {
  if (gracePeriod === undefined) return manifest
  return addField(manifest, release, {
    path: ['spec', 'template', 'spec'],
    name: 'terminationGracePeriodSeconds',
    lines: [`terminationGracePeriodSeconds: ${gracePeriod}`],
  })
}

/** The charts 1.16.0 to 1.16.2 have none: Kubernetes would update the pods by itself. */
function addUpdateStrategy(manifest: string, { release, partition }: Adjustments): string {
  if (partition === undefined) return manifest
  return addField(manifest, release, {
    path: ['spec'],
    name: 'updateStrategy',
    lines: [
      'updateStrategy:',
      '  type: RollingUpdate',
      '  rollingUpdate:',
      `    partition: ${partition}`,
    ],
  })
}

/** Adds a field of the StatefulSet that its chart does not have, before the first one, so that all other bytes stay. */
function addField(
  manifest: string,
  release: string,
  { path, name, lines }: { path: string[]; name: string; lines: string[] },
): string {
  if (!/\bStatefulSet\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  if (!isNamed(document, 'StatefulSet', release)) return manifest
  const parent = document.getIn(path)
  if (!isMap(parent) || parent.has(name)) return manifest
  const first = parent.items[0]?.key
  const start = isScalar(first) ? first.range?.[0] : undefined
  if (start === undefined) return manifest
  const indent = ' '.repeat(start - (manifest.lastIndexOf('\n', start - 1) + 1))
  const field = lines.map((line) => `${line}\n${indent}`).join('')
  return manifest.slice(0, start) + field + manifest.slice(start)
}

/** The images of the engine's repository that have a tag and no digest, each with the digest. */
function pinnedImages(document: Document, image: string): Replacement[] {
  const [repository = '', digest = ''] = image.split('@')
  const containers = CONTAINER_PATHS.flatMap((path) => {
    const list = document.getIn(path)
    return isCollection(list) ? list.items : []
  })
  return containers.flatMap((container) => {
    const node: unknown = isMap(container) ? container.get('image', true) : undefined
    const text: unknown = isScalar(node) ? node.value : undefined
    if (typeof text !== 'string' || !text.startsWith(`${repository}:`) || text.includes('@'))
      return []
    return [{ node, value: `${text}@${digest}` }]
  })
}

function withReplacements(manifest: string, replacements: Replacement[]): string {
  const ranges = replacements.flatMap(({ node, value }) => {
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

function secureMonitor(
  manifest: string,
  release: string,
  { serverName, caSecret }: MonitorTls,
): string {
  if (!/\bServiceMonitor\b/.test(manifest)) return manifest
  const document = parseDocument(manifest)
  if (!isNamed(document, 'ServiceMonitor', release)) return manifest
  const endpoints = document.getIn(['spec', 'endpoints'])
  if (!isCollection(endpoints)) return manifest
  const ca = caSecret === undefined ? {} : { ca: { secret: { name: caSecret, key: 'ca.crt' } } }
  for (const endpoint of endpoints.items) {
    if (!isMap(endpoint)) continue
    endpoint.set('scheme', 'https')
    endpoint.set('tlsConfig', document.createNode({ serverName, ...ca }))
  }
  return document.toString({ lineWidth: 0 })
}

function isNamed(document: Document, kind: string, name: string): boolean {
  return document.get('kind') === kind && document.getIn(['metadata', 'name']) === name
}
