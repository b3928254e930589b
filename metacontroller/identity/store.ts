/** The Secret of the hook service in the API: read, completed, and written only where it was not changed meanwhile. */
import { KubernetesError } from '../../crds/errors.ts'
import { Secret } from '../../crds/kubernetes.ts'
import type { Kubernetes } from '../../jobs/clients/kubernetes.ts'
import { put } from '../optimistic.ts'
import { secrets } from '../places.ts'
import { completed, type IdentityData, type Wish } from './secret.ts'

export interface SecretPlace {
  namespace: string
  name: string
}

/** Others write it too: a service that is started beside this one, or a person. */
const ATTEMPTS = 5

/** What is in the Secret once it is complete; `known` is put back where somebody emptied it. */
export async function completeSecret(
  kubernetes: Kubernetes,
  { namespace, name }: SecretPlace,
  known: IdentityData,
  wish: Wish,
): Promise<IdentityData> {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const found = await kubernetes.get(secrets(namespace), name, Secret)
    const data = decoded(found?.data ?? {})
    const wanted = completed({ ...known, ...data }, wish)
    if (found !== undefined && isSame(data, wanted)) return data
    const object = {
      ...(found ?? { apiVersion: 'v1', kind: 'Secret', type: 'Opaque' }),
      metadata: found?.metadata ?? { namespace, name },
      data: encoded(wanted),
    }
    if (await put(kubernetes, secrets(namespace), object)) return wanted
  }
  throw new KubernetesError(`Secret ${namespace}/${name} is changed by somebody again and again`)
}

function isSame(one: IdentityData, other: IdentityData): boolean {
  const names = Object.keys(one)
  return (
    names.length === Object.keys(other).length && names.every((name) => one[name] === other[name])
  )
}

function decoded(data: Record<string, string>): IdentityData {
  return mapped(data, (value) => Buffer.from(value, 'base64').toString())
}

function encoded(data: IdentityData): Record<string, string> {
  return mapped(data, (value) => Buffer.from(value).toString('base64'))
}

function mapped(data: Record<string, string>, change: (value: string) => string) {
  return Object.fromEntries(Object.entries(data).map(([name, value]) => [name, change(value)]))
}
