/**
 * What is visible in a scenario's namespaces at its end, logs of Jobs and of the service, Events, status,
 * annotations and Job specs, is searched for the content of every Secret of these namespaces.
 */
import { createHash } from 'node:crypto'
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
/** Digits of the SHA-256 of a key that status and annotations may show. */
const FINGERPRINT_DIGITS = 16
const PEM_MARK = /^-----/

export interface Text {
  where: string
  text: string
}

export interface SecretValue {
  /** Which Secret and key, without the value. */
  name: string
  /** Text that reveals it in any output. */
  forms: string[]
}

/** A line for each leaked Secret, with the place of the leak. */
export async function leakedSecrets(world: World, namespaces: string[]): Promise<string[]> {
  const values = secretValues(await listed(world, namespaces, 'v1', 'Secret'))
  if (values.length === 0) return []
  return leaksIn(await textsOf(world, namespaces), values)
}

/** The values of Secrets, except those that are no secret. */
export function secretValues(secrets: AnyObject[]): SecretValue[] {
  return secrets.flatMap((object) => {
    const { metadata, type, data = {} } = object as Secret
    if (type === HELM) return []
    const entries = Object.entries(data).filter(([key]) => !PUBLIC.test(key))
    return entries.map(([key, encoded]) => ({
      name: `Secret ${metadata.namespace ?? ''}/${metadata.name}, key ${key},`,
      forms: formsOf(Buffer.from(encoded, 'base64').toString().trim()),
    }))
  })
}

/** A line for each value in a text. */
export function leaksIn(texts: Text[], values: SecretValue[]): string[] {
  return texts.flatMap(({ where, text }) =>
    values
      .filter(({ forms }) => forms.some((form) => text.includes(form)))
      .map(({ name }) => `${name} in ${where}`),
  )
}

/** Each line as it is, in base64 on its own or within a longer text, and more of its hash than may be shown. */
function formsOf(value: string): string[] {
  const lines = value.split('\n').filter((line) => !PEM_MARK.test(line))
  const whole = createHash('sha256').update(value).digest('hex')
  return [
    ...lines.flatMap((line) => [line, ...base64FormsOf(line)]),
    ...(value.length >= SHORTEST ? [whole.slice(0, FINGERPRINT_DIGITS + 1)] : []),
  ].filter(({ length }) => length >= SHORTEST)
}

/** The characters that do not depend on what is before and after it, for each of the three positions it may have. */
function base64FormsOf(line: string): string[] {
  if (line.length < SHORTEST) return []
  const bytes = Buffer.from(line)
  const forms = [0, 1, 2].flatMap((before) => {
    const text = Buffer.concat([Buffer.alloc(before), bytes])
    const [from, to] = [Math.ceil((before * 4) / 3), Math.floor((text.length * 4) / 3)]
    return (['base64', 'base64url'] as const).map((form) => text.toString(form).slice(from, to))
  })
  return [...new Set(forms)]
}

async function textsOf(world: World, namespaces: string[]): Promise<Text[]> {
  const texts = [{ where: 'the log of the service', text: await world.serviceLog() }]
  for (const [apiVersion, kind] of CHECKED_KINDS) {
    for (const object of await listed(world, namespaces, apiVersion, kind)) {
      const { namespace = '', name } = object.metadata
      texts.push({ where: `${kind} ${namespace}/${name}`, text: JSON.stringify(object) })
      if (kind !== 'Job') continue
      const text = await world.logs(namespace, name)
      texts.push({ where: `the log of Job ${namespace}/${name}`, text })
    }
  }
  return texts
}

async function listed(world: World, namespaces: string[], apiVersion: string, kind: string) {
  const lists = namespaces.map((namespace) => world.list(apiVersion, kind, namespace))
  return (await Promise.all(lists)).flat()
}
