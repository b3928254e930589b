/**
 * The pass of this loop over objects in memory, for the fuzz and the model: its client, its caches and its hooks
 * are replaced, the pass itself is the one that the contract cases compare with the real Metacontroller.
 */
import { controllers, PLURALS } from '../../../metacontroller/controllers.ts'
import { apiVersionOf, type Kind, type Kinds } from '../api/kinds.ts'
import type { ApiObject, ObjectApi } from '../client.ts'
import type { Clock } from '../clock.ts'
import type { CustomizeAnswer, SyncAnswer } from './answer.ts'
import { Children } from './children.ts'
import { checkController, type CompositeController } from './composite.ts'
import { Customize } from './customize.ts'
import type { Discovery, ResourceKind } from './discovery.ts'
import { Finalizer } from './finalizer.ts'
import type { Hook } from './hooks.ts'
import type { Informer, Informers } from './informer.ts'
import { keyOf } from './object.ts'
import type { PassOptions } from './pass.ts'

export type HookName = 'sync' | 'finalize' | 'customize'

/** Sends a request to a hook and returns its answer. */
export type CallHook = (hook: HookName, body: object) => Promise<SyncAnswer | CustomizeAnswer>

export interface Memory {
  api: ObjectApi
  kinds: Kinds
  clock: Clock
  /** The cached objects of a kind, in one namespace or in all. */
  list: (kind: Kind, namespace: string | undefined) => ApiObject[]
  call: CallHook
}

const NO_SERVICE = {
  url: 'http://service.test',
  version: '',
  tokenFingerprint: '',
  namespacesHash: '',
}
const CONTROLLERS = new Map<string, CompositeController>(
  controllers({ ...NO_SERVICE, kinds: PLURALS }).map((controller) => {
    const checked = checkController(JSON.parse(JSON.stringify(controller)))
    return [checked.spec.parentResource.resource, checked]
  }),
)

/** Whether Metacontroller puts its finalizer on parents of this kind. */
export function isFinalized(plural: string): boolean {
  return controllerOf(plural).spec.hooks.finalize !== undefined
}

/** What a pass over a parent of this kind needs; it asks for no further pass. */
export async function passInMemory(plural: string, memory: Memory): Promise<PassOptions> {
  const controller = controllerOf(plural)
  const { api, kinds, clock, call } = memory
  const { parentResource, childResources = [], hooks } = controller.spec
  const informer = (apiVersion: string, resource: string) =>
    informerOf(memory, kindNamed(kinds, apiVersion, resource))
  const childManagement = new Children(api, discoveryOf(kinds))
  await childManagement.learnMethods(controller)
  const hook = (name: HookName) => hookOf((body) => call(name, body))
  const parents = informer(parentResource.apiVersion, parentResource.resource)
  const customize = new Customize({
    controller,
    hook: hooks.customize && (hook('customize') as unknown as Hook<typeof CustomizeAnswer>),
    parents,
    informers: {
      of: async (apiVersion: string, resource: string) => informer(apiVersion, resource),
    } as unknown as Informers,
    namespaces: informer('v1', 'namespaces'),
    clock,
    enqueue: () => undefined,
  })
  return {
    ...{ api, controller },
    parts: {
      ...{ parents, childManagement, customize },
      children: childResources.map(({ apiVersion, resource }) => informer(apiVersion, resource)),
      sync: hook('sync'),
      finalize: hooks.finalize && hook('finalize'),
      close: async () => undefined,
    },
    finalizer: new Finalizer(api, controller.metadata.name, hooks.finalize !== undefined),
    selected: () => true,
    resync: () => undefined,
  }
}

function controllerOf(plural: string): CompositeController {
  const found = CONTROLLERS.get(plural)
  if (found === undefined) throw new Error(`no CompositeController for ${plural}`)
  return found
}

export function hookOf(call: (body: object) => Promise<unknown>): Hook<typeof SyncAnswer> {
  return { call, close: async () => undefined } as unknown as Hook<typeof SyncAnswer>
}

/** A cache that has what the memory says, and reports no changes. */
function informerOf({ list }: Memory, kind: Kind): Informer {
  const found = {
    kind: discovered(kind),
    synced: true,
    list: (namespace = '') => list(kind, namespace === '' ? undefined : namespace),
    get: (key: string) => list(kind, undefined).find((object) => keyOf(object) === key),
    subscribe: () => undefined,
  }
  return found as unknown as Informer
}

function discoveryOf(kinds: Kinds): Discovery {
  const discovery = {
    resource: async (apiVersion: string, plural: string) =>
      discovered(kindNamed(kinds, apiVersion, plural)),
    kind: async (apiVersion: string, kind: string) => discovered(kinds.of(apiVersion, kind)),
  }
  return discovery as unknown as Discovery
}

function kindNamed(kinds: Kinds, apiVersion: string, plural: string): Kind {
  const [version = '', group = ''] = apiVersion.split('/').toReversed()
  const kind = kinds.find(group, version, plural)
  if (kind === undefined) throw new Error(`no kind ${plural} in ${apiVersion}`)
  return kind
}

function discovered(kind: Kind): ResourceKind {
  const { plural, namespaced } = kind
  return { apiVersion: apiVersionOf(kind), resource: plural, kind: kind.kind, namespaced }
}
