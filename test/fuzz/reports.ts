/** Values of the progress annotation. Every user that may patch the resource can write it. */
import fc from 'fast-check'
import { Progress } from '../../crds/contract/job.ts'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { SAMPLES } from '../crds/corpus/samples.ts'
import { grown, old, Youth } from './life.ts'
import { damaged, damages, type Damage } from './mangle.ts'
import { resourceOf } from './specs.ts'
import { Stage } from './stage.ts'
import type { Check, Subject } from './subject.ts'
import { awkwardText, rarely, valueOf } from './value.ts'
import { FuzzedWorld } from './world.ts'

interface ReportCase {
  /** Index of the sample. */
  sample: number
  report: unknown
  /** Whether it says of itself that it comes from the Job that runs. */
  isOurs: boolean
  damages: Damage[]
  /** Instead of all that. */
  text?: string | undefined
}

const WITH_JOBS = ['VecCluster', 'VecBackup', 'VecRestore', 'VecMigration']
const samples = SAMPLES.filter(({ kind }) => WITH_JOBS.includes(kind))

export const reports: Subject<ReportCase> = {
  name: 'reports',
  title: 'whatever the progress annotation says, no child is lost and the status fits the CRD',
  cases: fc.record(
    {
      sample: fc.nat(samples.length - 1),
      report: valueOf(Progress),
      isOurs: fc.oneof({ arbitrary: fc.constant(true), weight: 4 }, fc.constant(false)),
      damages: fc.oneof(fc.constant<Damage[]>([]), damages),
      text: rarely(awkwardText()),
    },
    { requiredKeys: ['sample', 'report', 'isOurs', 'damages'], noNullPrototype: true },
  ),
  open,
  async inWorld() {
    const fuzzed = await FuzzedWorld.open()
    return {
      async holds({ sample, report, damages: all, text }) {
        const { kind, spec } = samples[sample] as AnyObject & { spec: unknown }
        const said = text ?? JSON.stringify(damaged(report, all))
        return fuzzed.holds({
          ...{ resource: resourceOf(kind), name: 'a', spec: async () => spec },
          meanwhile: (reference) =>
            fuzzed.world.patch(reference, {
              metadata: { annotations: { [ANNOTATIONS.progress]: said } },
            }),
        })
      },
      askedAgain: () => fuzzed.askedAgain,
      close: () => fuzzed.close(),
    }
  },
}

async function open(): Promise<Check<ReportCase>> {
  const stage = new Stage()
  const youth = new Youth(stage)
  return {
    async holds({ sample, report, isOurs, damages: all, text }) {
      const { kind, spec } = samples[sample] as AnyObject & { spec: unknown }
      const resource = resourceOf(kind)
      const parent = await youth.of(resource, spec)
      const said = text ?? JSON.stringify(damaged(isOurs ? ours(stage, report) : report, all))
      stage.change(parent, (live) => ({
        ...live,
        metadata: {
          ...live.metadata,
          annotations: { ...live.metadata.annotations, [ANNOTATIONS.progress]: said },
        },
      }))
      await stage.pass(resource, parent)
      const phase = stage.phaseOf(parent)
      await grown(stage, resource, parent)
      await old(stage, resource, parent)
      return `${kind} ${phase}`
    },
    askedAgain: () => stage.askedAgain,
    close: () => stage.close(),
  }
}

/** As the pod of the Job that runs would sign it. */
function ours(stage: Stage, report: unknown): unknown {
  const [job] = stage.resources.store.list(stage.resources.kinds.of('batch/v1', 'Job'))
  if (job === undefined) return report
  const { uid: parent } = job.metadata.ownerReferences?.[0] ?? {}
  const { uid, name, annotations } = job.metadata
  const run = Number(name.split('-').at(-1))
  const [, verb] = name.split('-')
  return {
    ...(report as object),
    uid: parent,
    verb,
    run,
    job: uid,
    plan: annotations?.[ANNOTATIONS.plan],
  }
}
