/** Whether a 404 means that the collection was deleted, from the lists of all nodes. */
import t from 'tap'
import { EngineError } from '../../../crds/contract/errors.ts'
import type { RunContext } from '../../../jobs/backup/context.ts'
import { rejectIfDeleted, requireSameVersion } from '../../../jobs/backup/source-cluster.ts'

const UNREACHABLE = new EngineError('GET collections got no answer')
const WRONG_KEY = new EngineError('GET collections answered 401', { status: 401 })

/** A run on nodes that list these collections, or fail. */
function runOn(...answers: (string[] | EngineError)[]): RunContext {
  const collections = async (ordinal: number) => {
    const answer = answers[ordinal] ?? []
    if (answer instanceof EngineError) throw answer
    return answer
  }
  return {
    plan: { cluster: { replicas: answers.length } },
    tools: {
      signal: new AbortController().signal,
      engineForPod: (_: unknown, ordinal: number) => ({ collections: () => collections(ordinal) }),
    },
  } as unknown as RunContext
}

t.test('a collection that no node lists was deleted', async (t) => {
  const deleted = { code: 'Rejected', message: 'collection docs was deleted during the backup' }
  await t.rejects(rejectIfDeleted('docs', runOn([], ['other'])), deleted)
  await t.rejects(rejectIfDeleted('docs', runOn(UNREACHABLE, ['other'])), deleted)
})

t.test('a collection that a node lists, or that no node could list, may be there', async (t) => {
  await t.resolves(rejectIfDeleted('docs', runOn([], ['docs'])))
  await t.resolves(rejectIfDeleted('docs', runOn(UNREACHABLE, UNREACHABLE)))
})

t.test('an error that does not pass is thrown', async (t) => {
  await t.rejects(rejectIfDeleted('docs', runOn([], WRONG_KEY)), WRONG_KEY)
})

t.test('one version is that of the cluster; several are named by node', async (t) => {
  const views = (...versions: string[]) => versions.map((version, node) => ({ node, version }))
  t.equal(requireSameVersion(views('1.18.3', '1.18.3')), '1.18.3')
  t.throws(() => requireSameVersion(views('1.18.3', '1.17.0')), {
    code: 'EngineError',
    message: 'the nodes run different versions: node 0 runs 1.18.3, node 1 runs 1.17.0',
  })
})
