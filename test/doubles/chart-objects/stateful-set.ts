/** The StatefulSet of the chart: one container that runs the engine, one that prepares its volumes. */
import type { ChartValues } from './values.ts'

interface Facts {
  name: string
  labels: Record<string, string>
  selector: Record<string, string>
  version: string
  /** Annotations that change, and so roll the pods, when ConfigMap or Secret change. */
  checksums: Record<string, string>
  hasKeys: boolean
}

export function statefulSet(values: ChartValues, facts: Facts): object {
  const { name, labels, selector } = facts
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name, labels },
    spec: {
      replicas: values.replicaCount,
      podManagementPolicy: 'Parallel',
      ...(values.minReadySeconds && { minReadySeconds: values.minReadySeconds }),
      updateStrategy: { type: 'RollingUpdate', rollingUpdate: { partition: 0 } },
      selector: { matchLabels: selector },
      serviceName: `${name}-headless`,
      template: {
        metadata: {
          annotations: { ...facts.checksums, ...values.podAnnotations },
          labels: { ...selector, ...values.podLabels },
        },
        spec: podSpec(values, facts),
      },
      volumeClaimTemplates: claims(values),
    },
  }
}

function podSpec(values: ChartValues, facts: Facts): object {
  const { nodeSelector, affinity, tolerations, imagePullSecrets, priorityClassName } = values
  const { terminationGracePeriodSeconds, topologySpreadConstraints } = values
  const { repository, tag, useUnprivilegedImage } = values.image
  const suffix = useUnprivilegedImage ? '-unprivileged' : ''
  const image = `${repository}:${tag || `v${facts.version}`}${suffix}`
  const initContainer = {
    name: 'ensure-dir-ownership',
    image,
    command: ['chown', '-R', '1000:3000', '/qdrant/storage', '/qdrant/snapshots'],
    volumeMounts: VOLUMES,
  }
  return {
    ...(imagePullSecrets.length > 0 && { imagePullSecrets }),
    ...(priorityClassName !== '' && { priorityClassName }),
    ...(terminationGracePeriodSeconds !== undefined && { terminationGracePeriodSeconds }),
    ...(!useUnprivilegedImage && { initContainers: [initContainer] }),
    containers: [engineContainer(values, image, facts.hasKeys)],
    securityContext: values.podSecurityContext,
    ...(Object.keys(nodeSelector).length > 0 && { nodeSelector }),
    ...(Object.keys(affinity).length > 0 && { affinity }),
    ...(tolerations.length > 0 && { tolerations }),
    ...(topologySpreadConstraints.length > 0 && { topologySpreadConstraints }),
    serviceAccountName: facts.name,
    volumes: [
      { name: 'qdrant-config', configMap: { name: facts.name, defaultMode: 0o755 } },
      ...(values.snapshotPersistence.enabled ? [] : [{ name: 'qdrant-snapshots', emptyDir: {} }]),
      { name: 'qdrant-init', emptyDir: {} },
      ...(facts.hasKeys
        ? [
            {
              name: 'qdrant-secret',
              secret: { secretName: `${facts.name}-apikey`, defaultMode: 0o600 },
            },
          ]
        : []),
      ...values.additionalVolumes,
    ],
  }
}

const VOLUMES = [
  { name: 'qdrant-storage', mountPath: '/qdrant/storage' },
  { name: 'qdrant-snapshots', mountPath: '/qdrant/snapshots' },
]

function engineContainer(values: ChartValues, image: string, hasKeys: boolean): object {
  const scheme = values.config.service.enable_tls ? { scheme: 'HTTPS' } : {}
  return {
    name: 'qdrant',
    image,
    imagePullPolicy: values.image.pullPolicy,
    env: [
      { name: 'QDRANT_INIT_FILE_PATH', value: '/qdrant/init/.qdrant-initialized' },
      ...values.env.map(({ name, value = '', valueFrom }) =>
        valueFrom === undefined ? { name, value } : { name, valueFrom },
      ),
    ],
    command: ['/bin/bash', '-c'],
    args: ['./config/initialize.sh'],
    ports: values.service.ports.map(({ name, targetPort, protocol }) => ({
      name,
      containerPort: targetPort,
      protocol,
    })),
    readinessProbe: {
      httpGet: { path: '/readyz', port: 6333, ...scheme },
      initialDelaySeconds: 5,
      timeoutSeconds: 1,
      periodSeconds: 5,
      successThreshold: 1,
      failureThreshold: 6,
    },
    resources: values.resources,
    securityContext: values.containerSecurityContext,
    lifecycle: { preStop: { exec: { command: ['sleep', '3'] } } },
    volumeMounts: mounts(values, hasKeys),
  }
}

function mounts(values: ChartValues, hasKeys: boolean): object[] {
  const file = (volume: string, subPath: string) => ({
    name: volume,
    mountPath: `/qdrant/config/${subPath}`,
    subPath,
  })
  const [storage, snapshots] = VOLUMES
  return [
    { ...storage },
    file('qdrant-config', 'initialize.sh'),
    file('qdrant-config', 'production.yaml'),
    ...(hasKeys ? [file('qdrant-secret', 'local.yaml')] : []),
    { ...snapshots },
    { name: 'qdrant-init', mountPath: '/qdrant/init' },
    ...values.additionalVolumeMounts,
  ]
}

function claims({ persistence, snapshotPersistence }: ChartValues): object[] {
  return [
    claim('qdrant-storage', persistence),
    ...(snapshotPersistence.enabled ? [claim('qdrant-snapshots', snapshotPersistence)] : []),
  ]
}

function claim(name: string, volume: ChartValues['persistence']): object {
  const { size, accessModes, storageClassName, volumeAttributesClassName } = volume
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name, labels: { app: 'qdrant' } },
    spec: {
      ...(storageClassName && { storageClassName }),
      ...(volumeAttributesClassName && { volumeAttributesClassName }),
      accessModes,
      resources: { requests: { storage: size } },
    },
  }
}
