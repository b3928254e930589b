/**
 * VecCluster: when helm runs, and what its status says. Sources: "States and transitions" of the
 * specification, docs/kinds/cluster.md.
 */
import fc from 'fast-check'
import { decodePlan, JOB_ENV, UpgradePlan } from '../../../crds/contract/job.ts'
import { ANNOTATIONS, API_VERSION } from '../../../crds/contract/names.ts'
import { statefulSet } from '../../builders.ts'
import { finalizerName } from '../../../metacontroller/controllers.ts'
import { valueAt } from '../../world/api/json.ts'
import type { ApiObject } from '../../world/client.ts'
import { Broken } from '../promises.ts'
import type { Stage } from '../stage.ts'
import { annotate, endJob, report } from './job-steps.ts'
import { Run, unfinishedJobs, type Model, type Expectation } from './model.ts'
import { drop, HOME, putSecret, replace, type SecretState } from './surroundings.ts'

export interface ClusterCase {
  /** `auto`: the chart generates the key; else the Secret that the spec names. */
  apiKey: 'auto' | SecretState
  first: 'Done' | 'Failed'
  isReady: boolean
  /** Another client deletes the client Service. */
  isServiceLost: boolean
  /** Then the spec asks for this version. */
  version: keyof typeof CHANGES
  isRiskAccepted: boolean
}

/** From 1.18.3: why the version is refused, and the risk by which it is accepted. */
const CHANGES = {
  '1.18.3': undefined,
  '1.18.4': undefined,
  '1.19.0': undefined,
  '1.21.1': { reason: 'VersionSkipped', risk: 'version-skip' },
  '1.17.1': { reason: 'VersionDowngraded', risk: 'downgrade' },
}

const cases: fc.Arbitrary<ClusterCase> = fc.record(
  {
    apiKey: fc.constantFrom<ClusterCase['apiKey']>('auto', 'auto', 'good', 'absent', 'empty'),
    first: fc.constantFrom('Done', 'Done', 'Failed'),
    isReady: fc.constantFrom(true, true, false),
    isServiceLost: fc.constantFrom(false, true),
    version: fc.constantFrom(...(Object.keys(CHANGES) as (keyof typeof CHANGES)[])),
    isRiskAccepted: fc.constantFrom(false, true),
  },
  { noNullPrototype: true },
)

export const clusterModel: Model<ClusterCase> = { kind: 'VecCluster', cases, run: runCase }

/** A helm run is due and has its Job. */
function atWork(phase: string): Expectation[] {
  return ['HelmStarting', 'HelmRunning'].map((reason) => ({
    ...{ phase, condition: `Applied=False ${reason}`, jobs: 1 },
  }))
}

function atRest(isReady: boolean): Expectation {
  return isReady
    ? { phase: 'Running', condition: 'Ready=True AllReplicasReady', jobs: 0 }
    : { phase: 'Pending', condition: 'Ready=False ReplicasNotReady', jobs: 0 }
}

async function runCase(stage: Stage, one: ClusterCase): Promise<string> {
  const isNamed = one.apiKey !== 'auto'
  stage.clear()
  const secret = (state: SecretState) =>
    putSecret(stage, { namespace: HOME, name: 'key', state }, ['full'])
  secret(one.apiKey === 'auto' ? 'absent' : one.apiKey)
  const apiKey = isNamed
    ? { secretRef: { name: 'key', key: 'full' }, autoGenerate: false, jwtRbac: false }
    : { autoGenerate: true, jwtRbac: false }
  const parent = stage.put({
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    metadata: { name: 'main', namespace: HOME, finalizers: [finalizerName('vecclusters')] },
    spec: { version: '1.18.3', apiKey },
  })
  const run = new Run(stage, parent)
  if (one.apiKey === 'absent' || one.apiKey === 'empty') {
    const blocked = { phase: 'Pending', condition: 'Applied=False InvalidSecret', jobs: 0 }
    await run.expect([blocked], 'without its Secret')
    secret('good')
  }
  await run.expect(atWork('Pending'), 'the first helm run')
  if (one.first === 'Failed') {
    finish(run, { state: 'Failed', reason: 'HelmFailed', message: 'the chart is not there' })
    const failed = { phase: 'Pending', condition: 'Applied=False HelmFailed', jobs: 1 }
    await run.expect([failed, ...atWork('Pending')], 'the run after one that failed')
  }
  finish(run, { state: 'Done' })
  putSecret(stage, { namespace: HOME, name: 'vec-main-apikey', state: 'good' }, ['api-key'])
  putRelease(stage, one.isReady)
  await run.expect([atRest(one.isReady)], 'once helm has run')
  if (one.isServiceLost) await checkLostService(run, one)
  await checkChange(run, one)
  return `VecCluster ${one.apiKey} ${CHANGES[one.version]?.reason ?? 'applied'}`
}

/** The helm run creates it again, and nothing else has changed. */
async function checkLostService(run: Run, { isReady }: ClusterCase): Promise<void> {
  const { stage } = run
  drop(stage, {
    ...{ apiVersion: 'v1', kind: 'Service' },
    metadata: { name: 'vec-main', namespace: HOME },
  })
  const { phase } = atRest(isReady)
  const lost = { phase, condition: 'Ready=False ReleaseIncomplete', jobs: 1 }
  await run.expect([lost], 'without its Service')
  putRelease(stage, isReady)
  finish(run, { state: 'Done' })
  await run.expect([atRest(isReady)], 'with its Service again')
}

async function checkChange(run: Run, one: ClusterCase): Promise<void> {
  const { stage, parent } = run
  const { version, isRiskAccepted, isReady } = one
  const blocker = CHANGES[version]
  const phase = isReady ? 'Running' : 'Pending'
  if (version === '1.18.3') {
    const applied = { phase, condition: 'Applied=True UpToDate', jobs: 0 }
    await run.expect([applied], 'without a change')
    return
  }
  stage.change(parent, (live) => ({ ...live, spec: { ...(live.spec as object), version } }))
  const upgrading = isReady ? ['Running', 'Upgrading'] : ['Pending']
  if (blocker !== undefined) {
    const { reason, risk } = blocker
    // The Job compares the versions, because it sees the release that is installed.
    await run.expect(upgrading.flatMap(atWork), `the helm Job of ${version}`)
    finish(run, { state: 'Refused', reason, message: 'the version is not adjacent' })
    const refused = { phase, condition: `Applied=False ${reason}`, jobs: 0 }
    await run.expect([refused], `version ${version}`)
    if (!isRiskAccepted) return
    annotate(stage, parent, { [ANNOTATIONS.acceptRisk]: risk })
    const again = upgrading.map((one) => ({ ...refused, phase: one, jobs: 1 }))
    await run.expect([...upgrading.flatMap(atWork), ...again], 'once the risk is accepted')
    const [job] = unfinishedJobs(stage, parent)
    const risks = job === undefined ? [] : planOf(job).acceptedRisks
    if (risks.join() !== risk) throw new Broken(`the helm Job accepts ${risks.join()}`)
  } else await run.expect(upgrading.flatMap(atWork), `the helm run of ${version}`)
  finish(run, { state: 'Done' })
  await run.expect(
    [{ phase, condition: 'Applied=True UpToDate', jobs: 0 }],
    `after the helm run of ${version}`,
  )
  if (valueAt(run.live, 'status.version') !== version) {
    throw new Broken(`status.version is ${String(valueAt(run.live, 'status.version'))}`)
  }
}

/** The helm Job reports and ends. */
function finish(
  run: Run,
  result: { state: 'Done' | 'Failed' | 'Refused'; reason?: string; message?: string },
) {
  const { stage, live } = run
  const [job] = live === undefined ? [] : unfinishedJobs(stage, live)
  if (live === undefined || job === undefined) throw new Broken('there is no helm Job')
  const applied = result.state === 'Done' ? { applied: appliedBy(stage, job) } : {}
  report(stage, live, job, { ...result, ...applied })
  endJob(stage, job, result.state === 'Done' ? 'Complete' : 'Failed')
}

function planOf(job: ApiObject): UpgradePlan {
  const [container] = valueAt(job, 'spec.template.spec.containers') as {
    env: { name: string; value?: string }[]
  }[]
  const text = container?.env.find(({ name }) => name === JOB_ENV.plan)?.value ?? ''
  return decodePlan(UpgradePlan, text)
}

function appliedBy(stage: Stage, job: ApiObject): object {
  const { generation, secretFingerprints, startMark, version, defaultAffinity } = planOf(job)
  return {
    planHash: job.metadata.annotations?.[ANNOTATIONS.plan],
    ...{ generation, secretFingerprints, version },
    ...(startMark !== undefined && { startMark }),
    ...(defaultAffinity !== undefined && { defaultAffinity }),
    run: Number(job.metadata.name.split('-').at(-1)),
    at: stage.clock.now().toISOString(),
    statefulSetGeneration: 1,
  }
}

function putRelease(stage: Stage, isReady: boolean): void {
  const ready = isReady ? 1 : 0
  const set = statefulSet(1, { readyReplicas: ready, updatedReplicas: 1 })
  const labels = { app: 'qdrant' }
  const template = { metadata: { labels }, spec: { containers: [{ name: 'qdrant', image: 'q' }] } }
  const spec = { ...set.spec, selector: { matchLabels: labels }, template }
  replace(stage, { ...set, spec, metadata: { name: 'vec-main', namespace: HOME } })
  const metadata = { name: 'vec-main', namespace: HOME }
  const service = { apiVersion: 'v1', kind: 'Service', spec: { ports: [{ port: 6333 }] } }
  replace(stage, { ...service, metadata })
  replace(stage, { ...service, metadata: { name: 'vec-main-headless', namespace: HOME } })
  replace(stage, { apiVersion: 'v1', kind: 'ConfigMap', metadata })
  replace(stage, { apiVersion: 'v1', kind: 'ServiceAccount', metadata })
}
