import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  UninstallPlan,
  decodePlan,
  encodePlan,
  parseProgress,
  type Progress,
} from '../../../crds/contract/job.ts'
import { MAX_PLAN_BYTES } from '../../../crds/contract/limits.ts'

const plan: UninstallPlan = {
  resource: 'vecclusters',
  namespace: 'search',
  name: 'main',
  uid: 'uid-1',
  run: 2,
  hash: 'abc',
  release: 'vec-main',
}

t.test('a plan that is read from the environment equals the one that was written', async (t) => {
  t.strictSame(decodePlan(UninstallPlan, encodePlan(plan, 'spec.config')), plan)
})

t.test('a plan is gzip and base64: a variable holds no line break', async (t) => {
  t.match(encodePlan(plan, 'spec.config'), /^[A-Za-z0-9+/]+=*$/)
})

t.test('a large plan that compresses well fits', async (t) => {
  const config = Array.from({ length: 10_000 }, () => 'the same words again')
  t.ok(encodePlan({ ...plan, config }, 'spec.config').length < MAX_PLAN_BYTES)
})

t.test('a plan over 96 KiB is Rejected naming the field', async (t) => {
  const config = randomBytes(80 * 1024).toString('base64')
  t.throws(() => encodePlan({ ...plan, config }, 'spec.config'), {
    code: 'Rejected',
    message: /^spec\.config is too large: \d+ of 98304 bytes compressed$/,
  })
})

t.test('a plan of another shape is rejected by the Job', async (t) => {
  t.throws(() => decodePlan(UninstallPlan, encodePlan({ name: 'main' }, 'spec.config')))
  t.throws(() => decodePlan(UninstallPlan, encodePlan({ ...plan, run: 0 }, 'spec.config')))
  t.throws(() => decodePlan(UninstallPlan, 'no base64 of a gzip'))
})

const progress: Progress = {
  uid: 'uid-1',
  verb: 'upgrade',
  run: 1,
  job: 'uid-of-job',
  runner: 'uid-of-pod',
  plan: 'hash',
  state: 'Started',
  at: '2025-01-31T12:00:00Z',
  startedAt: '2025-01-31T12:00:00Z',
}

t.test('a report is read from the annotation', async (t) => {
  t.strictSame(parseProgress(JSON.stringify(progress), 'uid-1'), progress)
})

t.test('a report with another uid is ignored', async (t) => {
  t.equal(parseProgress(JSON.stringify(progress), 'uid-2'), undefined)
})

for (const [what, text] of [
  ['that is not there', undefined],
  ['that is no JSON', '{"uid":'],
  ['that is null', 'null'],
  ['of another shape', JSON.stringify({ uid: 'uid-1' })],
  ['with an unknown state', JSON.stringify({ ...progress, state: 'Finished' })],
  ['with a time that is none', JSON.stringify({ ...progress, at: 'yesterday' })],
] as const) {
  t.test(`a report ${what} is none`, async (t) => {
    t.equal(parseProgress(text, 'uid-1'), undefined)
  })
}
