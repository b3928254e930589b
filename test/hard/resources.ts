/** The resources of a run, as a user writes them. */
import { API_VERSION } from '../../crds/contract/names.ts'
import { BUCKET, NAMESPACE } from './world.ts'

export const SOURCE = 'a'
export const TARGET = 'b'

export function cluster(name: string, replicas: number): object {
  return of('VecCluster', name, {
    version: '1.18.3',
    replicas,
    persistence: { size: '64Mi' },
    resources: { requests: { cpu: '10m', memory: '32Mi' } },
  })
}

export function backup(name: string, endpoint: string, method: 'Node' | 'Shard'): object {
  const credentialsSecretRef = { name: 'bucket' }
  const s3 = { bucket: BUCKET, prefix: '', region: 'us-east-1', endpoint, forcePathStyle: true }
  return of('VecBackup', name, {
    clusterRef: { name: SOURCE },
    storage: { s3: { ...s3, credentialsSecretRef } },
    method,
  })
}

export function restore(
  name: string,
  spec: { backup: string; target: string; collections: string[]; mapping: Record<string, string> },
): object {
  const { backup, target, collections, mapping } = spec
  return of('VecRestore', name, {
    backupRef: { name: backup },
    targetClusterRef: { name: target },
    collections,
    ...(Object.keys(mapping).length > 0 && { collectionMapping: mapping }),
  })
}

export function migration(name: string, collections: string[]): object {
  return of('VecMigration', name, {
    source: { clusterRef: { name: SOURCE } },
    targetClusterRef: { name: TARGET },
    collections,
    batchSize: 100,
  })
}

function of(kind: string, name: string, spec: object): object {
  return { apiVersion: API_VERSION, kind, metadata: { namespace: NAMESPACE, name }, spec }
}
