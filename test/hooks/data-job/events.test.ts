import t from 'tap'
import type { Condition } from '../../../crds/schema.ts'
import { dataJobEvents } from '../../../hooks/data-job/decision.ts'
import { ago, NOW } from '../../builders.ts'

const story = {
  started: { reason: 'BackupStarted', message: 'it begins' },
  completed: { reason: 'Backed', suffix: ', 3 collections' },
  failed: 'BackupFailed',
}
const silent = { ...story, started: false as const }

function complete(reason: string): Condition {
  const times = { lastTransitionTime: ago(60), observedGeneration: 1 }
  return { type: 'Complete', status: 'True', reason, message: 'it is so', ...times }
}

function resource(...conditions: Condition[]) {
  return {
    ...{ apiVersion: 'vec-operator.dev/v1alpha1', kind: 'VecBackup' },
    metadata: { name: 'one', namespace: 'ns', uid: 'uid-one', generation: 1 },
    status: { conditions },
  }
}

function eventsOf(
  before: Condition[],
  status: { conditions?: Condition[]; error?: string },
  about = silent as typeof story | typeof silent,
) {
  const events = dataJobEvents({ resource: resource(...before), status, now: NOW }, about)
  return events.map(({ type, reason, message }) => [type, reason, message])
}

t.test('the start of the work is one Event, whatever else happened', async (t) => {
  t.strictSame(eventsOf([], {}, story), [['Normal', 'BackupStarted', 'it begins']])
  t.strictSame(eventsOf([], { conditions: [complete('Backed')] }, story), [
    ['Normal', 'BackupStarted', 'it begins'],
    ['Normal', 'Backed', 'it is so, 3 collections'],
  ])
  t.strictSame(eventsOf([], {}), [])
})

t.test('an end is an Event with its error, if there is one', async (t) => {
  for (const reason of ['BackupFailed', 'JobNotStarted']) {
    const conditions = [complete(reason)]
    t.strictSame(eventsOf([], { conditions }), [['Warning', reason, 'it is so']])
    t.strictSame(eventsOf([], { conditions, error: 'no space' }), [
      ['Warning', reason, 'it is so: no space'],
    ])
  }
})

t.test(
  'a reported state is not reported again, and a state in progress is not an end',
  async (t) => {
    const conditions = [complete('Backed')]
    t.strictSame(eventsOf([complete('Backed')], { conditions }), [])
    t.strictSame(eventsOf([complete('Waiting')], { conditions })[0]?.[1], 'Backed')
    t.strictSame(eventsOf([], { conditions: [complete('InProgress')] }), [])
    t.strictSame(eventsOf([], { conditions: [] }), [])
    const other = { ...complete('Backed'), type: 'Lease' }
    t.strictSame(eventsOf([], { conditions: [other] }), [], 'another condition')
  },
)
