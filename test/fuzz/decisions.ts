/** Situations of each kind; an independent model (models/) says what the operator must decide. */
import fc from 'fast-check'
import { accessKeyModel } from './models/access-key.ts'
import { scheduleModel } from './models/backup-schedule.ts'
import { clusterModel } from './models/cluster.ts'
import { collectionModel } from './models/collection.ts'
import { dataJobModel } from './models/data-job.ts'
import type { Model } from './models/model.ts'
import { Stage } from './stage.ts'
import type { Check, Subject } from './subject.ts'

interface DecisionCase {
  kind: string
  situation: unknown
}

const MODELS = [
  clusterModel,
  collectionModel,
  accessKeyModel,
  scheduleModel,
  dataJobModel('VecBackup'),
  dataJobModel('VecRestore'),
  dataJobModel('VecMigration'),
] as unknown as Model<unknown>[]

export const decisions: Subject<DecisionCase> = {
  name: 'decisions',
  title:
    'what a model of each kind says is what the operator decides, in a bounded number of passes',
  cost: 4,
  cases: fc.oneof(
    ...MODELS.map(({ kind, cases }) => fc.record({ kind: fc.constant(kind), situation: cases })),
  ),
  open,
}

async function open(): Promise<Check<DecisionCase>> {
  const stage = new Stage()
  return {
    async holds({ kind, situation }) {
      const model = MODELS.find((one) => one.kind === kind)
      if (model === undefined) throw new Error(`there is no model of ${kind}`)
      return model.run(stage, situation)
    },
    askedAgain: () => stage.askedAgain,
    close: () => stage.close(),
  }
}
