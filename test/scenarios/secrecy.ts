/**
 * What is visible in a scenario's namespaces at its end, logs of Jobs and of the service, Events, status,
 * annotations and Job specs, is searched for the content of every Secret of these namespaces.
 */
import type { AnyObject, Secret } from '../../crds/kubernetes.ts'
import { API_VERSION } from '../../crds/contract/names.ts'
import { RESOURCES } from '../../crds/crd.ts'
import type { World } from '../world/world.ts'

/** Kinds that users without access to Secrets may read. */
const CHECKED_KINDS = [
  ['v1', 'Event'],
  ['batch/v1', 'Job'],
  ...RESOURCES.map(({ kind }) => [API_VERSION, kind]),
] as [string, string][]

/** Keys of Secrets that hold no secret: names, addresses, certificates. */
const PUBLIC = /(^|_)id$|^url$|\.crt$/i
const HELM = 'helm.sh/release.v1'
/** A shorter word may stand anywhere by chance. */
const SHORTEST = 10

/** A line for each leaked Secret, with the place of the leak. */
export async function leakedSecrets(world: World, namespaces: string[]): Promise<string[]> {
  const secrets = (await listed(world, namespaces, 'v1', 'Secret')).flatMap(contentOf)
  if (secrets.length === 0) return []
  const leaks: string[] = []
  for (const [where, text] of await textsOf(world, namespaces)) {
    for (const { name, value } of secrets) {
      if (text.includes(value)) leaks.push(`${name} in ${where}`)
    }
  }
  return leaks
}

async function textsOf(
  world: World,
  namespaces: string[],
): Promise<[where: string, text: string][]> {
  const texts: [string, string][] = [['the log of the service', await world.serviceLog()]]
  for (const [apiVersion, kind] of CHECKED_KINDS) {
    for (const object of await listed(world, namespaces, apiVersion, kind)) {
      const { namespace = '', name } = object.metadata
      texts.push([`${kind} ${namespace}/${name}`, JSON.stringify(object)])
      if (kind !== 'Job') continue
      texts.push([`the log of Job ${namespace}/${name}`, await world.logs(namespace, name)])
    }
  }
  return texts
}

async function listed(world: World, namespaces: string[], apiVersion: string, kind: string) {
  const lists = namespaces.map((namespace) => world.list(apiVersion, kind, namespace))
  return (await Promise.all(lists)).flat()
}

/** Each value as it is, and as a Secret holds it. */
function contentOf(object: AnyObject): { name: string; value: string }[] {
  const { metadata, type, data = {} } = object as Secret
  if (type === HELM) return []
  const entries = Object.entries(data).filter(([key]) => !PUBLIC.test(key))
  return entries.flatMap(([key, encoded]) => {
    const name = `Secret ${metadata.namespace ?? ''}/${metadata.name}, key ${key},`
    const values = [encoded, Buffer.from(encoded, 'base64').toString().trim()]
    return values.filter(({ length }) => length >= SHORTEST).map((value) => ({ name, value }))
  })
}
