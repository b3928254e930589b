/** The objects of the cases: a Job like ours, and changes of its parts. */
import type { Json } from '../../world/api/json.ts'
import { mergePatch } from '../../world/api/patch.ts'

export const NAMESPACE = 'contract'

const CONTAINER = { name: 'backup', image: 'operator:1' }
const POD = {
  restartPolicy: 'Never',
  volumes: [{ name: 'tmp', emptyDir: {} }],
}

/** A Job with these changes of its spec; null removes a field, and a list replaces the former one. */
export function job(spec: Json, metadata: Json = {}): Json {
  const template = { spec: { ...POD, containers: [CONTAINER] } }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'case', namespace: NAMESPACE, ...metadata },
    spec: mergePatch({ template }, spec),
  }
}

export function pod(spec: Json): Json {
  return job({ template: { spec } })
}

export function container(change: Json): Json {
  return pod({ containers: [mergePatch(CONTAINER, change)] })
}

export function statefulSet(spec: Json): Json {
  const labels = { app: 'engine' }
  const template = { metadata: { labels }, spec: { containers: [CONTAINER] } }
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'case', namespace: NAMESPACE },
    spec: mergePatch({ serviceName: 'engine', selector: { matchLabels: labels }, template }, spec),
  }
}

export function object(kind: string, fields: Json): Json {
  return {
    apiVersion: 'v1',
    kind,
    metadata: { name: 'case', namespace: NAMESPACE },
    ...fields,
  }
}
