/** Everything that a user may read in a namespace: each object of each kind, and each container's log. */
import { ApiError } from '../world/client.ts'
import type { User } from '../world/world.ts'
import type { Text } from './secrecy.ts'

/** A token of Kubernetes or of an engine, and an address that grants access to a bucket. */
const CREDENTIALS: [name: string, form: RegExp][] = [
  ['a token', /eyJ[\w-]{8,2000}\.eyJ[\w-]{8,4000}\.[\w-]{16}/],
  ['a presigned address', /X-Amz-Signature=[0-9a-f]{64}/],
]
const FORBIDDEN = 403
/** The object went since it was listed, or its container has not started. */
const NOTHING_THERE = new Set([400, 404])

export type Reader = Awaited<ReturnType<typeof readerOf>>

interface Resource {
  name: string
  kind: string
  namespaced: boolean
  verbs: string[]
}

interface Item {
  metadata: { name: string }
  spec?: { initContainers?: { name: string }[]; containers?: { name: string }[] }
}

/** Looks up what this user may list in the namespace; each call of the answer reads all of it. */
export async function readerOf(user: User, namespace: string) {
  const resources: { kind: string; path: string }[] = []
  for (const [root, { name, kind }] of await namespacedResources(user)) {
    const path = `${root}/namespaces/${namespace}/${name}`
    if (await mayList(user, path)) resources.push({ kind, path })
  }
  return {
    /** Paths of the kinds that may be listed, without that of the namespace: `api/v1/pods`. */
    kinds: resources.map(({ path }) => path.replace(`/namespaces/${namespace}`, '').slice(1)),
    read: async (): Promise<Text[]> => {
      const texts: Text[] = []
      for (const { kind, path } of resources) {
        for (const item of await listed(user, path)) {
          const where = `${kind} ${namespace}/${item.metadata.name}`
          texts.push({ where, text: JSON.stringify(item) })
          if (kind === 'Pod') texts.push(...(await logsOf(user, path, item)))
        }
      }
      return texts
    },
  }
}

/** A line for each text with a credential that needs no Secret to be recognized. */
export function credentialsIn(texts: Text[]): string[] {
  return texts.flatMap(({ where, text }) =>
    CREDENTIALS.filter(([, form]) => form.test(text)).map(([name]) => `${name} in ${where}`),
  )
}

async function namespacedResources(user: User): Promise<[root: string, resource: Resource][]> {
  const { groups } = (await json(user, '/apis')) as {
    groups: { versions: { groupVersion: string }[] }[]
  }
  const versions = groups.flatMap((group) => group.versions.map(({ groupVersion }) => groupVersion))
  const found: [string, Resource][] = []
  for (const root of ['/api/v1', ...versions.map((version) => `/apis/${version}`)]) {
    const { resources } = (await json(user, root)) as { resources: Resource[] }
    for (const resource of resources)
      if (resource.namespaced && resource.verbs.includes('list')) found.push([root, resource])
  }
  return found
}

async function mayList(user: User, path: string): Promise<boolean> {
  try {
    await listed(user, path)
    return true
  } catch (error) {
    if (error instanceof ApiError && error.status === FORBIDDEN) return false
    throw error
  }
}

async function listed(user: User, path: string): Promise<Item[]> {
  return ((await json(user, path)) as { items: Item[] | null }).items ?? []
}

/** Of the containers that run, and of those before their last restart. */
async function logsOf(user: User, pods: string, { metadata, spec = {} }: Item): Promise<Text[]> {
  const texts: Text[] = []
  for (const { name } of [...(spec.initContainers ?? []), ...(spec.containers ?? [])]) {
    for (const previous of [false, true]) {
      const search = `container=${name}&previous=${previous}`
      const text = await logIn(user, `${pods}/${metadata.name}/log?${search}`)
      texts.push({ where: `the log of ${metadata.name}, container ${name}`, text })
    }
  }
  return texts
}

async function logIn(user: User, path: string): Promise<string> {
  try {
    return await user.raw('GET', path)
  } catch (error) {
    if (error instanceof ApiError && NOTHING_THERE.has(error.status)) return ''
    throw error
  }
}

async function json(user: User, path: string): Promise<unknown> {
  return JSON.parse(await user.raw('GET', path))
}
