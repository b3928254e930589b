/**
 * The related objects of a parent. The customize hook names them by rules, which are cached for each
 * parent and generation: only a change of the spec or a deletion calls the hook again.
 */
import type { ApiObject } from '../client.ts'
import type { Clock } from '../clock.ts'
import { CustomizeAnswer, rulesOf } from './answer.ts'
import type { LabelSelector } from './composite.ts'
import type { Hook } from './hooks.ts'
import type { Informer, Informers } from './informer.ts'
import { ObjectMap } from './object.ts'
import { matcher } from './selector.ts'

/** How long an answer is used, whatever happens. */
const BELIEVED_MS = 20 * 60_000

export interface RelatedRule {
  apiVersion: string
  resource: string
  /** Empty: every namespace. */
  namespace: string
  /** Empty: every name. */
  names: string[]
  labelSelector?: LabelSelector
  namespaceSelector?: LabelSelector
}

/** The cache of a related kind is being filled: the parent is seen again shortly, without an event. */
export class NotSynced extends Error {}

interface CustomizeOptions {
  controller: object
  hook: Hook<typeof CustomizeAnswer> | undefined
  parents: Informer
  informers: Informers
  namespaces: Informer
  clock: Clock
  enqueue: (parent: ApiObject) => void
}

export class Customize {
  readonly #options: CustomizeOptions
  readonly #answers = new Map<string, { rules: RelatedRule[]; until: number }>()
  readonly #subscribed = new Set<Informer>()

  constructor(options: CustomizeOptions) {
    this.#options = options
  }

  async relatedOf(parent: ApiObject): Promise<ObjectMap> {
    const related = new ObjectMap()
    for (const rule of await this.#rulesOf(parent)) {
      const informer = await this.#informerOf(rule)
      const { apiVersion, kind } = informer.kind
      related.group({ apiVersion, kind })
      for (const object of this.#select(rule, informer)) related.insert(object)
    }
    return related
  }

  async #rulesOf(parent: ApiObject): Promise<RelatedRule[]> {
    const { hook, controller, clock } = this.#options
    if (hook === undefined) return []
    const key = `${parent.metadata.uid ?? ''}/${parent.metadata.generation ?? 0}`
    const known = this.#answers.get(key)
    const now = clock.now().getTime()
    if (known !== undefined && known.until > now) return known.rules
    const answer: CustomizeAnswer = await hook.call({ controller, parent })
    const rules = rulesOf(answer)
    this.#answers.set(key, { rules, until: now + BELIEVED_MS })
    return rules
  }

  async #informerOf({ apiVersion, resource }: RelatedRule): Promise<Informer> {
    const informer = await this.#options.informers.of(apiVersion, resource)
    if (!this.#subscribed.has(informer)) {
      this.#subscribed.add(informer)
      informer.subscribe({
        added: (object) => this.#notify([object]),
        updated: (old, object) => {
          // A replay brings nothing new about a related object.
          if (old.metadata.resourceVersion === object.metadata.resourceVersion) return
          return this.#notify([old, object])
        },
        deleted: (object) => this.#notify([object]),
      })
    }
    if (!informer.synced) throw new NotSynced(`related ${resource} are not known yet`)
    return informer
  }

  #select(rule: RelatedRule, informer: Informer): ApiObject[] {
    check(rule, informer)
    return informer.list(rule.namespace).filter((object) => this.#selects(rule, object))
  }

  #selects(rule: RelatedRule, { metadata }: ApiObject): boolean {
    const { names, namespace, labelSelector, namespaceSelector } = rule
    if (names.length > 0 && !names.includes(metadata.name)) return false
    if (!matcher(labelSelector)(metadata.labels)) return false
    const own = metadata.namespace ?? ''
    if (namespaceSelector === undefined) return namespace === '' || own === '' || namespace === own
    const { namespaces } = this.#options
    if (!namespaces.synced) throw new NotSynced('namespaces are not known yet')
    const found = namespaces.get(own)
    return found !== undefined && matcher(namespaceSelector)(found.metadata.labels)
  }

  /** Queues every parent with a rule that matches the object before or after the change. */
  async #notify(objects: ApiObject[]): Promise<void> {
    for (const parent of this.#options.parents.list()) {
      // An error here is only this event lost for this parent; the next sync shows it.
      const rules = await this.#rulesOf(parent).catch(() => [])
      if (await this.#concerns(rules, objects)) this.#options.enqueue(parent)
    }
  }

  async #concerns(rules: RelatedRule[], objects: ApiObject[]): Promise<boolean> {
    for (const rule of rules) {
      try {
        const { kind } = await this.#options.informers.of(rule.apiVersion, rule.resource)
        for (const object of objects) {
          if (object.apiVersion !== kind.apiVersion || object.kind !== kind.kind) continue
          if (this.#selects(rule, object)) return true
        }
      } catch {
        // A rule of an unknown kind concerns nobody.
      }
    }
    return false
  }
}

function check(rule: RelatedRule, { kind }: Informer): void {
  const { names, namespace, labelSelector, namespaceSelector } = rule
  if (names.length > 0 && (labelSelector !== undefined || namespaceSelector !== undefined)) {
    throw new Error('related rule cannot have both names and labelSelector/namespaceSelector')
  }
  if (namespaceSelector === undefined) return
  if (namespace !== '') {
    throw new Error('related rule cannot have both namespace and namespaceSelector')
  }
  if (!kind.namespaced) {
    throw new Error('namespaceSelector is only supported for namespaced related resources')
  }
}
