/** Runs the corpus against anything that stores objects: the embedded admission or an API server. */
import type { AnyObject } from '../../crds/kubernetes.ts'
import { CORPUS } from './corpus.ts'
import type { Case } from './corpus/case.ts'

/** Where objects are put. `create` and `replace` throw with the API server's message when refused. */
export interface Store {
  create(object: AnyObject): Promise<AnyObject>
  replace(object: AnyObject): Promise<AnyObject>
  delete(object: AnyObject): Promise<void>
}

/** What became of one case. */
export interface Outcome {
  title: string
  passed: boolean
  /** What was said: the refusal, or why it does not fit. */
  said: string
  /** The object as it was stored, when it was accepted. */
  stored?: AnyObject
}

/** Every case in turn, in the given namespace; nothing is left behind. */
export async function runCorpus(
  store: Store,
  namespace: string,
  cases: Case[] = CORPUS,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const one of cases) outcomes.push(await runCase(store, namespace, one))
  return outcomes
}

async function runCase(store: Store, namespace: string, one: Case): Promise<Outcome> {
  const place = (object: AnyObject) => ({
    ...object,
    metadata: { ...object.metadata, namespace },
  })
  const stored = one.old === undefined ? undefined : await store.create(place(one.old))
  try {
    return judge(one, await attempt(store, place(one.object), stored))
  } finally {
    if (stored !== undefined) await store.delete(stored)
  }
}

interface Answer {
  object?: AnyObject
  refusal?: string
}

async function attempt(
  store: Store,
  object: AnyObject,
  stored: AnyObject | undefined,
): Promise<Answer> {
  try {
    if (stored === undefined) {
      const created = await store.create(object)
      await store.delete(created)
      return { object: created }
    }
    const { resourceVersion } = stored.metadata
    const metadata = {
      ...object.metadata,
      ...(resourceVersion !== undefined && { resourceVersion }),
    }
    return { object: await store.replace({ ...object, metadata }) }
  } catch (error) {
    return { refusal: error instanceof Error ? error.message : String(error) }
  }
}

function judge({ title, refused }: Case, { object, refusal }: Answer): Outcome {
  if (object !== undefined) {
    const said = refused === undefined ? 'accepted' : `accepted, not refused: ${refused.message}`
    return { title, passed: refused === undefined, said, stored: object }
  }
  const said = refusal ?? ''
  const field = refused?.field ?? ''
  const passed = refused !== undefined && said.includes(refused.message) && said.includes(field)
  return { title, passed, said }
}
