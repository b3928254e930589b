/** What the status of a StatefulSet says about its update, and the label of a pod about its template. */
import t from 'tap'
import { REVISION_LABEL } from '../../crds/contract/names.ts'
import {
  type StatefulSet,
  hasTwoRevisions,
  isOutdated,
  mayBeUpdating,
  mayHaveOutdatedPods,
} from '../../crds/kubernetes.ts'

const SAME = { currentRevision: 'a', updateRevision: 'a' }
const OTHER = { currentRevision: 'a', updateRevision: 'b' }
const set = (status: StatefulSet['status']) => (status === undefined ? {} : { status })

t.test('two revisions, or fewer updated pods than pods, may be an update', (t) => {
  const cases: [string, StatefulSet['status'], boolean, boolean][] = [
    ['complete', { ...SAME, replicas: 3, updatedReplicas: 3 }, false, false],
    ['begun', { ...OTHER, replicas: 3 }, true, true],
    ['the last pod is not ready yet', { ...OTHER, replicas: 3, updatedReplicas: 3 }, true, false],
    ['taken back', { ...SAME, replicas: 3, updatedReplicas: 2 }, false, true],
    ['no pods', { ...SAME, replicas: 0 }, false, false],
    ['nothing is known', undefined, false, false],
  ]
  for (const [title, status, two, outdated] of cases) {
    t.equal(hasTwoRevisions(set(status)), two, title)
    t.equal(mayHaveOutdatedPods(set(status)), outdated, title)
    t.equal(mayBeUpdating(set(status)), two || outdated, title)
  }
  t.end()
})

t.test('a pod is outdated if its label names another revision than the newest', (t) => {
  const pod = (labels?: Record<string, string>) => ({
    metadata: { name: 'p', ...(labels && { labels }) },
  })
  t.equal(isOutdated(pod({ [REVISION_LABEL]: 'a' }), set(OTHER)), true)
  t.equal(isOutdated(pod({ [REVISION_LABEL]: 'b' }), set(OTHER)), false)
  t.equal(isOutdated(pod({ [REVISION_LABEL]: 'b' }), set(undefined)), true)
  t.equal(isOutdated(pod({}), set(OTHER)), false)
  t.equal(isOutdated(pod(), set(OTHER)), false)
  t.end()
})
