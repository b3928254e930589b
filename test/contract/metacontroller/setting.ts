/** What a case is, and the CompositeController that is examined in it. */
import { API_VERSION, CONFIG_MAP, JOB, PARENT, PART, SECRET } from './kinds.ts'
import type { Stage } from './stage.ts'

export interface Setting {
  /** Default: sync and finalize, as our own controllers have. */
  hooks?: ('sync' | 'finalize' | 'customize')[]
  methods?: { [kind in 'Part' | 'ConfigMap' | 'Secret' | 'Job']?: string }
  /** Fields of spec in addition to the usual ones. */
  spec?: object
  /** Fields of each webhook in addition to the URL. */
  webhook?: object
  parentResource?: object
}

export interface Case {
  /** A sentence about Metacontroller. */
  title: string
  setting?: Setting
  play(stage: Stage): Promise<void>
  /** What is to be noted where only our loop can show it: minutes that the real one would take. */
  expected?: Record<string, unknown>
}

export function controllerOf(setting: Setting, url: string): object {
  const { hooks = ['sync', 'finalize'], methods = {}, spec = {}, webhook = {} } = setting
  const hook = (name: string) => ({
    version: 'v2',
    webhook: { url: `${url}/${name}`, timeout: '5s', ...webhook },
  })
  return {
    apiVersion: 'metacontroller.k8s.io/v1alpha1',
    kind: 'CompositeController',
    metadata: { name: 'contract' },
    spec: {
      generateSelector: true,
      parentResource: {
        apiVersion: API_VERSION,
        resource: PARENT.resource,
        ignoreStatusChanges: true,
        ...setting.parentResource,
      },
      childResources: [PART, CONFIG_MAP, SECRET, JOB].map(({ apiVersion, kind, resource }) => ({
        apiVersion,
        resource,
        updateStrategy: { method: methods[kind as keyof typeof methods] ?? 'OnDelete' },
      })),
      hooks: Object.fromEntries(hooks.map((name) => [name, hook(name)])),
      ...spec,
    },
  }
}
