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

/** The result of one case. */
export interface CaseResult {
  title: string
  passed: boolean
  /** The rejection, or why the result is unexpected. */
  message: string
  /** The stored object, if it was accepted. */
  stored?: AnyObject
}

/** Every case in turn, in the given namespace; nothing is left behind. */
export async function runCorpus(
  store: Store,
  namespace: string,
  cases: Case[] = CORPUS,
): Promise<CaseResult[]> {
  const outcomes: CaseResult[] = []
  for (const testCase of cases) outcomes.push(await runCase(store, namespace, testCase))
  return outcomes
}

async function runCase(store: Store, namespace: string, testCase: Case): Promise<CaseResult> {
  const inNamespace = (object: AnyObject) => ({
    ...object,
    metadata: { ...object.metadata, namespace },
  })
  const stored =
    testCase.old === undefined ? undefined : await store.create(inNamespace(testCase.old))
  try {
    return evaluate(testCase, await attempt(store, inNamespace(testCase.object), stored))
  } finally {
    if (stored !== undefined) await store.delete(stored)
  }
}

interface StoreResult {
  object?: AnyObject
  rejection?: string
}

async function attempt(
  store: Store,
  object: AnyObject,
  stored: AnyObject | undefined,
): Promise<StoreResult> {
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
    return { rejection: error instanceof Error ? error.message : String(error) }
  }
}

function evaluate({ title, refused }: Case, { object, rejection }: StoreResult): CaseResult {
  if (object !== undefined) {
    const message = refused === undefined ? 'accepted' : `accepted, not refused: ${refused.message}`
    return { title, passed: refused === undefined, message, stored: object }
  }
  const message = rejection ?? ''
  const field = refused?.field ?? ''
  const passed =
    refused !== undefined && message.includes(refused.message) && message.includes(field)
  return { title, passed, message }
}
