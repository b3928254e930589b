/** What the scenarios about tenants share: two namespaces, the user of one, and what they forge. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS, API_VERSION, LABELS } from '../../crds/contract/names.ts'
import type { Reference, User, World } from '../world/world.ts'

/** As the chart has it by default; in the embedded world, which has no chart, by an empty list. */
export function closed(world: World): Record<string, string> {
  return world.kind === 'cluster' ? {} : { [ANNOTATIONS.allowedNamespaces]: '' }
}

export interface Neighbours {
  /** Whose cluster it is. */
  owner: string
  /** Of the attacker. */
  own: string
  attacker: User
}

export async function neighbours(
  world: World,
  purpose: string,
  role: 'edit' | 'kinds' = 'edit',
): Promise<Neighbours> {
  const owner = await world.namespace(`${purpose}-owner`)
  const own = await world.namespace(`${purpose}-tenant`)
  return { owner, own, attacker: await world.tenant(own, role) }
}

/** One of our resources, and where it is. */
export function manifest(kind: string, namespace: string, name: string, spec: object) {
  const reference: Reference = { apiVersion: API_VERSION, kind, namespace, name }
  const object = { apiVersion: API_VERSION, kind, metadata: { namespace, name }, spec }
  return { reference, object }
}

/** A Job that never runs and looks like one of ours: labelled, adopted by the resource, without a signature. */
export async function forgedJob(
  attacker: User,
  { namespace, name }: { namespace: string; name: string },
  { uid, component = 'transfer', labels = {} }: Forged,
): Promise<AnyObject> {
  const ours = {
    [LABELS.managedBy]: 'vec-operator',
    [LABELS.component]: component,
    [LABELS.parent]: uid,
    [LABELS.verb]: 'run',
    'controller-uid': uid,
    ...labels,
  }
  const containers = [{ name: 'a', image: 'vec-operator:forged' }]
  return attacker.create({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { namespace, name, labels: ours },
    spec: { suspend: true, template: { spec: { restartPolicy: 'Never', containers } } },
  })
}

interface Forged {
  /** Of the resource it claims to work for. */
  uid: string
  component?: 'transfer' | 'helm'
  labels?: Record<string, string>
}

/** The report of a Job that has started. */
export function forgedReport(uid: string, job: string, at: Date): object {
  const [now] = at.toISOString().split('.')
  const started = { state: 'Started', at: `${now}Z`, startedAt: `${now}Z` }
  const report = { uid, verb: 'run', run: 1, job, runner: 'forged', plan: 'forged', ...started }
  return { metadata: { annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) } } }
}

/** Everything in the Secrets of a namespace, decoded. */
export async function secretValues(world: World, namespace: string): Promise<string[]> {
  const secrets = (await world.list('v1', 'Secret', namespace)) as {
    data?: Record<string, string>
  }[]
  return secrets
    .flatMap(({ data = {} }) => Object.values(data))
    .map((value) => Buffer.from(value, 'base64').toString())
}

/** Waits until any condition of the resource has the reason, or its error has the words. */
export function waitForMessage(world: World, reference: Reference, words: RegExp, seconds = 180) {
  return world.waitFor(
    reference,
    String(words),
    (object) => {
      const { conditions = [], error = '' } = (object as WithConditions | undefined)?.status ?? {}
      const messages = conditions.map(({ reason, message }) => `${reason}: ${message}`)
      return [...messages, error].some((text) => words.test(text))
    },
    seconds,
  )
}

interface WithConditions {
  status?: { conditions?: { reason: string; message: string }[]; error?: string }
}
