/** The resources of the small worlds, as the API server stores them after a user has written them. */
import { API_VERSION } from '../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../crds/crd.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { admit } from '../world/admission/admit.ts'
import { NAMESPACE } from './small-world.ts'

/** A resource with every default of its CRD. */
export function stored(kind: string, name: string, spec: object, status?: object): AnyObject {
  const resource = RESOURCES.find((one) => one.kind === kind)
  if (resource === undefined) throw new Error(`no kind ${kind}`)
  const metadata = { namespace: NAMESPACE, name }
  const object = { apiVersion: API_VERSION, kind, metadata, spec, ...(status && { status }) }
  return admit(customResourceDefinition(resource, '0.1.0'), object)
}

export function runningCluster(name: string): AnyObject {
  return stored('VecCluster', name, { version: '1.18.3' }, { phase: 'Running' })
}

export function bucketSecret(): object {
  const data = { CLOUD_ACCESS_KEY_ID: 'aWQ=', CLOUD_SECRET_ACCESS_KEY: 'a2V5' }
  return { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'bucket' }, data }
}

/** The cluster and the location of every backup. */
export const CONTENT = {
  clusterRef: { name: 'a' },
  storage: { s3: { bucket: 'b', credentialsSecretRef: { name: 'bucket' } } },
}
