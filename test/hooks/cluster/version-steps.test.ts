/** Which version the next helm run has, and what is left on the way to spec.version. */
import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { UpgradePlan } from '../../../crds/contract/job.ts'
import type { Observed } from '../../../hooks/cluster/ports.ts'
import { desiredRun } from '../../../hooks/cluster/job.ts'
import { stepReason, versionSteps } from '../../../hooks/cluster/version-steps.ts'
import { applied, cluster, context, progress, settings, statefulSet } from '../../builders.ts'
import { createdJob, jobPlan } from '../decisions.ts'
import { condition, ready, sync } from './decisions.ts'

interface Case {
  /** spec.version. */
  to: string
  /** The version that was applied last. */
  from?: string
  /** spec.version of that run, if it was another one. */
  madeFor?: string
  readyReplicas?: number
  /** Version in the labels of the StatefulSet. */
  label?: string
  acceptRisk?: string
  /** Whether the consensus thread of a node has stopped. */
  isStopped?: boolean
  stepVersions?: string[]
  digest?: string
}

function at(parts: Case): Observed {
  const { to, from, madeFor = from, readyReplicas = 1, label = from } = parts
  const { acceptRisk, isStopped, stepVersions, digest } = parts
  const { image } = cluster().spec
  const annotations = {
    ...(madeFor !== undefined && {
      [ANNOTATIONS.lastAppliedSpec]: JSON.stringify({ version: madeFor }),
    }),
    ...(acceptRisk !== undefined && { [ANNOTATIONS.acceptRisk]: acceptRisk }),
  }
  const set = statefulSet(1, { readyReplicas })
  const labels = label === undefined ? {} : { 'app.kubernetes.io/version': label }
  return ready({
    cluster: cluster({
      spec: { version: to, image: { ...image, ...(digest !== undefined && { digest }) } },
      annotations,
      generation: 2,
      status: { phase: 'Running', appliedRun: 1 },
    }),
    statefulSet: { ...set, metadata: { ...set.metadata, labels } },
    ...(stepVersions !== undefined && { stepVersions }),
    ...(from !== undefined && {
      progress: progress({ applied: applied({ version: from, generation: 2 }) }),
    }),
    ...(isStopped === true && {
      consensus: [{ ordinal: 0, state: 'stopped', error: 'panicked' }],
    }),
  })
}

const cases: [title: string, parts: Case, version: string, remaining: string[]][] = [
  ['the first install', { to: 'v1.18.3' }, '1.18.3', []],
  ['the next minor version', { from: '1.17.1', to: 'v1.18.2' }, '1.18.2', []],
  ['a patch', { from: '1.18.2', to: '1.18.3' }, '1.18.3', []],
  ['back, which the Job refuses', { from: '1.18.3', to: '1.16.3' }, '1.16.3', []],
  ['two minors ahead', { from: '1.16.0', to: '1.18.2' }, '1.17.1', ['1.17.1', '1.18.2']],
  ['three', { from: 'v1.16.3', to: '1.19.0' }, '1.17.1', ['1.17.1', '1.18.3', '1.19.0']],
  [
    'over a version of the settings, and the known patch of the other minor version',
    { from: '1.16.3', to: '1.19.0', stepVersions: ['1.19.4', '1.18.1'] },
    '1.17.1',
    ['1.17.1', '1.18.1', '1.19.0'],
  ],
  [
    'over a minor that only the settings name',
    { from: '1.19.0', to: '1.21.0', stepVersions: ['1.20.2'] },
    '1.20.2',
    ['1.20.2', '1.21.0'],
  ],
  ['a minor that is not known', { from: '1.18.3', to: '1.22.0' }, '1.22.0', []],
  ['another major version', { from: '1.16.3', to: '2.18.0' }, '2.18.0', []],
  ['an accepted skip', { from: '1.16.3', to: '1.18.3', acceptRisk: 'version-skip' }, '1.18.3', []],
  [
    'pods that are not ready do not hold up the first step: helm may correct them',
    { from: '1.16.3', to: '1.18.3', readyReplicas: 0 },
    '1.17.1',
    ['1.17.1', '1.18.3'],
  ],
  [
    'a step that is not rolled out',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', readyReplicas: 0 },
    '1.17.1',
    ['1.17.1', '1.18.3'],
  ],
  [
    'a step whose consensus has stopped',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', isStopped: true },
    '1.17.1',
    ['1.17.1', '1.18.3'],
  ],
  [
    'a step that is rolled out',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3' },
    '1.18.3',
    ['1.18.3'],
  ],
  [
    'the step after it was begun, and helm failed',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', readyReplicas: 0, label: '1.18.3' },
    '1.18.3',
    ['1.18.3'],
  ],
  [
    'a StatefulSet without a version',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', readyReplicas: 0, label: '' },
    '1.17.1',
    ['1.17.1', '1.18.3'],
  ],
  [
    'a patch of a step that does not become ready',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.17.0', readyReplicas: 0 },
    '1.17.0',
    [],
  ],
  [
    'a further goal in the middle',
    { from: '1.17.1', madeFor: '1.18.3', to: '1.19.0', readyReplicas: 0 },
    '1.17.1',
    ['1.17.1', '1.18.3', '1.19.0'],
  ],
]

for (const [title, parts, version, remaining] of cases) {
  t.test(title, async (t) => {
    t.strictSame(versionSteps(at(parts)), { version, remaining })
    t.equal(desiredRun(at(parts), settings).version, version)
  })
}

t.test('the annotation of the applied spec may be anything', async (t) => {
  const observed = at({ from: '1.17.1', to: '1.18.3' })
  for (const text of ['no JSON', '[]', '{"version":7}']) {
    observed.cluster.metadata.annotations = { [ANNOTATIONS.lastAppliedSpec]: text }
    t.strictSame(versionSteps(observed), { version: '1.18.3', remaining: [] })
  }
})

t.test('a missing StatefulSet, label or annotation changes no version step', async (t) => {
  const waiting = { version: '1.17.1', remaining: ['1.17.1', '1.18.3'] }
  const step: Case = { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', readyReplicas: 0 }
  const { statefulSet: set, ...withoutSet } = at(step)
  t.strictSame(versionSteps(withoutSet), waiting, 'no StatefulSet')
  t.ok(set)
  const unlabelled = statefulSet(1, { readyReplicas: 0 })
  t.strictSame(versionSteps({ ...withoutSet, statefulSet: unlabelled }), waiting, 'no labels')
  const direct = { version: '1.18.3', remaining: [] }
  withoutSet.cluster = cluster({ spec: { version: '1.18.3' } })
  t.strictSame(versionSteps(withoutSet), direct, 'no annotations')
})

t.test('a step has a Job of its own, and the plan is in the status', async (t) => {
  const decision = sync(at({ from: '1.16.3', to: '1.18.3' }), context)
  t.equal(jobPlan(decision, UpgradePlan).version, '1.17.1')
  t.strictSame(decision.status.versionPlan, ['1.17.1', '1.18.3'])
})

t.test('a step that is rolled out is waited for, without a Job', async (t) => {
  const step: Case = { from: '1.17.1', madeFor: '1.18.3', to: '1.18.3', readyReplicas: 0 }
  const observed = at(step)
  const { hash } = desiredRun(observed, settings)
  const reported = applied({ version: '1.17.1', generation: 2, planHash: hash })
  const decision = sync({ ...observed, progress: progress({ applied: reported }) }, context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    'False',
    'VersionStep',
    'version 1.17.1 is rolled out before 1.18.3',
  ])
  t.strictSame(decision.status.versionPlan, ['1.17.1', '1.18.3'])
})

t.test('without steps, or once the next one is due, nothing is waited for', async (t) => {
  t.equal(stepReason({ version: '1.18.3', remaining: [] }), undefined)
  t.equal(stepReason({ version: '1.17.1', remaining: ['1.18.3'] }), undefined)
  t.match(stepReason({ version: '1.17.1', remaining: ['1.17.1', '1.18.3', '1.19.0'] }), {
    message: 'version 1.17.1 is rolled out before 1.18.3, 1.19.0',
  })
})

t.test('a digest is that of spec.version: no step on the way to it is applied', async (t) => {
  const digest = `sha256:${'0a'.repeat(32)}`
  const decision = sync(at({ from: '1.16.3', to: '1.18.3', digest }), context)
  t.equal(createdJob(decision), undefined)
  t.strictSame(condition(decision, 'Applied'), [
    'False',
    'InvalidSpec',
    'spec.image.digest is the image of 1.18.3, but version 1.17.1 comes before it: set spec.version and spec.image.digest to 1.17.1 first, or remove spec.image.digest',
  ])
  t.equal(
    jobPlan(sync(at({ from: '1.17.1', to: '1.18.3', digest }), context), UpgradePlan).version,
    '1.18.3',
  )
})
