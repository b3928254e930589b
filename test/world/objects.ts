/** How scenarios look at objects and change them: in every world through its API server. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { applyObject } from './apply.ts'
import type { ApiClient } from './client.ts'
import type { Reference, World } from './world.ts'

export class WorldObjects implements Pick<World, 'apply' | 'get' | 'list' | 'patch' | 'delete'> {
  readonly client: ApiClient

  constructor(client: ApiClient) {
    this.client = client
  }

  async apply(object: object): Promise<AnyObject> {
    return applyObject(this.client, object)
  }

  async get(reference: Reference): Promise<AnyObject | undefined> {
    return this.client.get(reference)
  }

  async list(apiVersion: string, kind: string, namespace: string): Promise<AnyObject[]> {
    return (await this.client.list(apiVersion, kind, { namespace })).items
  }

  async patch(reference: Reference, patch: object): Promise<AnyObject> {
    return this.client.patch(reference, patch)
  }

  async delete(reference: Reference, propagation?: 'Background' | 'Foreground'): Promise<void> {
    await this.client.delete(reference, propagation === undefined ? {} : { propagation })
  }
}

/** What `until` fails with: the last state that was seen. */
export function timeoutError(
  { kind, namespace, name }: Reference,
  expectation: string,
  { seconds, last }: { seconds: number; last: AnyObject | undefined },
): Error {
  const state = JSON.stringify(last, null, 1)
  return new Error(
    `${kind} ${namespace}/${name} is not "${expectation}" after ${seconds} s: ${state}`,
  )
}
