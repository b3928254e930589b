/**
 * Annotations of the previous release, `allow-from` and `start-mark`, on existing objects. Remove with
 * the next release.
 */
import t from 'tap'
import { ANNOTATIONS, readAnnotation } from '../../crds/contract/names.ts'
import { desiredRun, findPendingRun } from '../../hooks/cluster/job.ts'
import {
  backupAccessBlocker,
  clusterAccessBlocker,
  namespaceCheck,
} from '../../hooks/cross-namespace.ts'
import { applied, cluster, progress, settings } from '../builders.ts'
import { backup } from './backup/objects.ts'
import { ready } from './cluster/decisions.ts'

const FORMER_LIST = 'vec-operator.dev/allow-from'
const NEW_LIST = 'vec-operator.dev/allowed-namespaces'
const FORMER_MARK = 'vec-operator.dev/start-mark'
const NEW_MARK = 'vec-operator.dev/restarted-at'

t.test('an annotation of the previous release counts only without the new one', async (t) => {
  t.equal(ANNOTATIONS.allowedNamespaces, NEW_LIST)
  t.equal(ANNOTATIONS.restartedAt, NEW_MARK)
  for (const [former, name] of [
    [FORMER_LIST, NEW_LIST],
    [FORMER_MARK, NEW_MARK],
  ] as const) {
    t.equal(readAnnotation({ [name]: 'new' }, name), 'new')
    t.equal(readAnnotation({ [former]: 'former' }, name), 'former')
    t.equal(readAnnotation({ [former]: 'former', [name]: 'new' }, name), 'new')
    t.equal(readAnnotation({ [former]: 'former', [name]: '' }, name), '')
    t.equal(readAnnotation({}, name), undefined)
    t.equal(readAnnotation(undefined, name), undefined)
  }
  t.equal(readAnnotation({ [FORMER_LIST]: '*' }, ANNOTATIONS.acceptRisk), undefined)
})

/** Namespaces that may use the cluster, closed and open, and those that may use the backup. */
const LISTS: [Record<string, string>, string, string, string][] = [
  [{}, '', 'one,two', ''],
  [{ [NEW_LIST]: 'one' }, 'one', 'one', 'one'],
  [{ [FORMER_LIST]: 'one' }, 'one', 'one', 'one'],
  [{ [FORMER_LIST]: '' }, '', '', ''],
  [{ [NEW_LIST]: '' }, '', '', ''],
  [{ [FORMER_LIST]: '*', [NEW_LIST]: 'two' }, 'two', 'two', 'two'],
  [{ [FORMER_LIST]: 'one,two', [NEW_LIST]: 'one' }, 'one', 'one', 'one'],
  [{ [FORMER_LIST]: '*', [NEW_LIST]: '' }, '', '', ''],
  [{ [FORMER_LIST]: '', [NEW_LIST]: '*' }, 'one,two', 'one,two', 'one,two'],
  [{ [FORMER_LIST]: 'one', [NEW_LIST]: 'two' }, 'two', 'two', 'two'],
]
for (const [annotations, closed, open, ofBackup] of LISTS) {
  t.test(`${JSON.stringify(annotations)} allows exactly the namespaces it lists`, async (t) => {
    const found = cluster({ namespace: 'own', annotations })
    const allowed = (isAllowed: (namespace: string) => boolean) =>
      ['one', 'two'].filter(isAllowed).join(',')
    t.equal(allowed(namespaceCheck(found, { crossNamespace: 'closed' })), closed)
    t.equal(allowed(namespaceCheck(found, { crossNamespace: 'open' })), open)
    t.equal(
      allowed(
        (one) => clusterAccessBlocker(found, one, { crossNamespace: 'closed' }) === undefined,
      ),
      closed,
    )
    const copied = backup({ namespace: 'own', annotations })
    t.equal(
      allowed((one) => backupAccessBlocker(copied, one) === undefined),
      ofBackup,
    )
    t.ok(namespaceCheck(found, { crossNamespace: 'closed' })('own'), 'its own namespace')
  })
}

t.test('the message names the new annotation', async (t) => {
  const found = cluster({ namespace: 'own', annotations: { [FORMER_LIST]: 'one' } })
  t.strictSame(clusterAccessBlocker(found, 'two', { crossNamespace: 'open' }), {
    reason: 'RefNotPermitted',
    message: `cluster own/a does not allow namespace two: add it to the annotation ${NEW_LIST} of the cluster`,
  })
})

t.test('a cluster that the previous release marked and applied needs no helm run', async (t) => {
  const markedBy = (annotations: Record<string, string>) =>
    ready({ cluster: cluster({ annotations }) })
  const former = markedBy({ [FORMER_MARK]: 'start-1' })
  const { hash, startMark } = desiredRun(former, settings)
  t.equal(startMark, 'start-1')
  const report = progress({ applied: applied({ planHash: hash }) })
  t.equal(findPendingRun({ ...former, progress: report }, settings), undefined)
  t.equal(desiredRun(markedBy({ [NEW_MARK]: 'start-1' }), settings).hash, hash)
  const restarted = markedBy({ [FORMER_MARK]: 'start-1', [NEW_MARK]: 'start-2' })
  t.equal(findPendingRun({ ...restarted, progress: report }, settings)?.startMark, 'start-2')
})
