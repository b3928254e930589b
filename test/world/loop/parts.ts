/** What a controller needs before it can start: caches, hooks, and kinds that are there. */
import type { ApiClient, ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import { CustomizeAnswer, SyncAnswer } from './answer.ts'
import { Children } from './children.ts'
import type { CompositeController } from './composite.ts'
import { Customize } from './customize.ts'
import type { Discovery } from './discovery.ts'
import type { SyncErrors } from './events.ts'
import { Hook, type HookSurroundings } from './hooks.ts'
import type { Informer, Informers } from './informer.ts'

/** What all controllers of a loop share. */
export interface Surroundings {
  api: ApiClient
  clock: Clock
  discovery: Discovery
  informers: Informers
  events: SyncErrors
  hooks: HookSurroundings
  log: (line: string) => void
  /** Ends the loop as the real process would end. */
  crash: (error: Error) => void
}

export interface Parts {
  parents: Informer
  children: Informer[]
  childManagement: Children
  customize: Customize
  sync: Hook<typeof SyncAnswer>
  finalize: Hook<typeof SyncAnswer> | undefined
  close(): Promise<void>
}

/** Throws when something is not there (yet). */
export async function openParts(
  controller: CompositeController,
  { api, clock, discovery, informers, hooks }: Surroundings,
  enqueue: (parent: ApiObject) => void,
): Promise<Parts> {
  const { parentResource, childResources = [], hooks: webhooks } = controller.spec
  await requireStatus(api, parentResource.apiVersion, parentResource.resource)
  const childManagement = new Children(api, discovery)
  await childManagement.learnMethods(controller)

  const sync = await Hook.open(webhooks.sync.webhook, SyncAnswer, hooks)
  const finalize =
    webhooks.finalize && (await Hook.open(webhooks.finalize.webhook, SyncAnswer, hooks))
  const customizeHook =
    webhooks.customize && (await Hook.open(webhooks.customize.webhook, CustomizeAnswer, hooks))

  const parents = await informers.of(parentResource.apiVersion, parentResource.resource)
  const children: Informer[] = []
  for (const { apiVersion, resource } of childResources) {
    children.push(await informers.of(apiVersion, resource))
  }
  const namespaces = await informers.of('v1', 'namespaces')
  const customize = new Customize({
    controller,
    hook: customizeHook,
    parents,
    informers,
    namespaces,
    clock,
    enqueue,
  })
  const close = async () => {
    await Promise.all([sync.close(), finalize?.close(), customizeHook?.close()])
  }
  return { parents, children, childManagement, customize, sync, finalize, close }
}

/** A parent must be a custom resource whose status is written apart from the rest. */
async function requireStatus(api: ApiClient, apiVersion: string, resource: string): Promise<void> {
  const [group, version] = apiVersion.split('/')
  const name = `${resource}.${group ?? ''}`
  const kind = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
  const crd = await api.get({ ...kind, namespace: '', name })
  const { versions = [] } = (crd?.spec ?? {}) as {
    versions?: { name: string; subresources?: { status?: object } }[]
  }
  const found = versions.find((candidate) => candidate.name === version)
  if (found?.subresources?.status === undefined) {
    throw new Error(`parent ${name} is no CRD with a status subresource in ${apiVersion}`)
  }
}
