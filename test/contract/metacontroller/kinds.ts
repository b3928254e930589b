/** The resources of the contract: a parent, and a child whose fields have no defaults and no validation. */

export const GROUP = 'contract.vec-operator.dev'
export const API_VERSION = `${GROUP}/v1`
export const PARENT = { apiVersion: API_VERSION, kind: 'Thing', resource: 'things' }
export const PART = { apiVersion: API_VERSION, kind: 'Part', resource: 'parts' }
export const CONFIG_MAP = { apiVersion: 'v1', kind: 'ConfigMap', resource: 'configmaps' }
export const SECRET = { apiVersion: 'v1', kind: 'Secret', resource: 'secrets' }
export const SERVICE_ACCOUNT = {
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  resource: 'serviceaccounts',
}
export const JOB = { apiVersion: 'batch/v1', kind: 'Job', resource: 'jobs' }

const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

const status = {
  type: 'object',
  properties: {
    observedGeneration: { type: 'integer', format: 'int64' },
    phase: { type: 'string' },
    message: { type: 'string' },
  },
}

function definition({ kind, resource }: { kind: string; resource: string }) {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${resource}.${GROUP}` },
    spec: {
      group: GROUP,
      names: { kind, plural: resource, singular: kind.toLowerCase(), listKind: `${kind}List` },
      scope: 'Namespaced',
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: {
            openAPIV3Schema: { type: 'object', properties: { spec: anything, status } },
          },
        },
      ],
    },
  }
}

export const DEFINITIONS = [definition(PARENT), definition(PART)]

export function configMap(name: string, data?: Record<string, string>, metadata: object = {}) {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, ...metadata },
    // An API server leaves out an empty one, which is not what this contract is about.
    ...(data !== undefined && Object.keys(data).length > 0 && { data }),
  }
}

export function part(name: string, spec: object) {
  return { apiVersion: API_VERSION, kind: 'Part', metadata: { name }, spec }
}

/** Suspended, so that no controller has a reason to touch it. */
export function job(name: string, image: string) {
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name },
    spec: {
      suspend: true,
      template: { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image }] } },
    },
  }
}
