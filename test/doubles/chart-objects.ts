/**
 * Stand-in for rendering the engine's chart: from the same values the same objects, by name, label and
 * field. test/contract/chart-objects.test.ts holds it to the real chart where one is given.
 */
import { createHash } from 'node:crypto'
import { stringify } from 'yaml'
import { keyData, wantsKeys, type Secrets } from './chart-objects/key-secret.ts'
import { statefulSet } from './chart-objects/stateful-set.ts'
import { chartValues, type ChartValues } from './chart-objects/values.ts'

interface Release {
  release: string
  namespace: string
  /** Of the chart, without a leading v. */
  version: string
  /** What the chart can look up. */
  secrets?: Secrets
}

export interface Rendered {
  apiVersion: string
  kind: string
  metadata: { name: string; labels: Record<string, string>; annotations?: Record<string, string> }
  [field: string]: unknown
}

/** In the order in which helm creates them. Throws ChartError in helm's words. */
export function renderChart(values: object, release: Release): Rendered[] {
  const merged = chartValues(values)
  const names = namesOf(merged, release)
  const { name, labels } = names
  const hasKeys = wantsKeys(merged)
  const renderKeys = () => (hasKeys ? [keySecret(merged, names, release.secrets ?? {})] : [])
  const configMap = configMapOf(merged, names)
  // The chart renders the Secret again for the checksum: with a key that it generates, both differ.
  const checksums = {
    'checksum/config': checksum(configMap),
    ...(hasKeys && { 'checksum/secret': checksum(renderKeys()) }),
  }
  return [
    ...(merged.podDisruptionBudget.enabled ? [disruptionBudget(merged, names)] : []),
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name, labels } },
    ...renderKeys(),
    configMap,
    headlessService(merged, names),
    clientService(merged, names),
    statefulSet(merged, { ...names, version: release.version, checksums, hasKeys }) as Rendered,
    ...(merged.metrics.serviceMonitor.enabled ? [serviceMonitor(merged, names)] : []),
  ]
}

interface Names {
  name: string
  labels: Record<string, string>
  selector: Record<string, string>
}

function namesOf({ fullnameOverride }: ChartValues, { release, version }: Release): Names {
  const selector = {
    app: 'qdrant',
    'app.kubernetes.io/name': 'qdrant',
    'app.kubernetes.io/instance': release,
  }
  const labels = {
    'helm.sh/chart': `qdrant-${version}`,
    ...selector,
    'app.kubernetes.io/version': `v${version}`,
    'app.kubernetes.io/managed-by': 'Helm',
  }
  const fallback = release.includes('qdrant') ? release : `${release}-qdrant`
  return { name: fullnameOverride || fallback, labels, selector }
}

function disruptionBudget(
  { podDisruptionBudget }: ChartValues,
  { name, labels, selector }: Names,
): Rendered {
  const { maxUnavailable, unhealthyPodEvictionPolicy } = podDisruptionBudget
  return {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    metadata: { name, labels },
    spec: {
      maxUnavailable,
      ...(unhealthyPodEvictionPolicy !== '' && { unhealthyPodEvictionPolicy }),
      selector: { matchLabels: selector },
    },
  }
}

function keySecret(values: ChartValues, { name, labels }: Names, secrets: Secrets): Rendered {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: `${name}-apikey`, labels },
    data: keyData(values, `${name}-apikey`, secrets),
  }
}

function configMapOf({ config }: ChartValues, { name, labels }: Names): Rendered {
  const { port = 6335, enable_tls } = config.cluster.p2p
  const node = (ordinal: string) =>
    `${enable_tls ? 'https' : 'http'}://${name}-${ordinal}.${name}-headless:${port}`
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, labels },
    data: {
      'initialize.sh': [
        '#!/bin/sh',
        'ordinal=${HOSTNAME##*-}',
        `[ "$ordinal" = 0 ] || bootstrap="--bootstrap ${node('0')}"`,
        `exec ./entrypoint.sh $bootstrap --uri "${node('$ordinal')}"`,
        '',
      ].join('\n'),
      'production.yaml': stringify(config, { sortMapEntries: true }),
    },
  }
}

function headlessService({ service }: ChartValues, { name, labels, selector }: Names): Rendered {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: {
      name: `${name}-headless`,
      labels: { ...labels, 'app.kubernetes.io/component': 'cluster-discovery' },
      ...annotationsOf(service),
    },
    spec: {
      clusterIP: 'None',
      publishNotReadyAddresses: true,
      ports: service.ports,
      selector,
    },
  }
}

function clientService({ service }: ChartValues, { name, labels, selector }: Names): Rendered {
  return {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, labels, ...annotationsOf(service) },
    spec: { type: service.type, ports: service.ports, selector },
  }
}

function annotationsOf({ annotations }: ChartValues['service']) {
  return Object.keys(annotations).length > 0 ? { annotations } : {}
}

function serviceMonitor(values: ChartValues, { name, labels }: Names): Rendered {
  const { scrapeInterval, scrapeTimeout, additionalLabels } = values.metrics.serviceMonitor
  const key = values.readOnlyApiKey ? 'read-only-api-key' : 'api-key'
  const authorization = { type: 'Bearer', credentials: { name: `${name}-apikey`, key } }
  const endpoint = {
    honorLabels: true,
    interval: scrapeInterval,
    path: '/metrics',
    port: 'http',
    scheme: 'http',
    scrapeTimeout,
    ...(wantsKeys(values) && { authorization }),
  }
  return {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'ServiceMonitor',
    metadata: { name, labels: { ...labels, ...additionalLabels } },
    spec: {
      endpoints: [endpoint],
      selector: {
        matchLabels: { ...labels, 'app.kubernetes.io/component': 'cluster-discovery' },
      },
    },
  }
}

function checksum(object: object): string {
  return createHash('sha256').update(JSON.stringify(object)).digest('hex')
}
