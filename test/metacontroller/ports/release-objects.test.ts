/** Which objects of a Helm release exist: what is certain, and how often the API server is asked. */
import t from 'tap'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import type { ReleaseObject } from '../../../hooks/cluster/ports.ts'
import type { Kubernetes } from '../../../jobs/clients/kubernetes/client.ts'
import { missingObjectsPort } from '../../../metacontroller/ports/release-objects.ts'
import { NOW } from '../../builders.ts'

const SERVICE: ReleaseObject = { kind: 'Service', name: 'vec-a' }
const BUDGET: ReleaseObject = { kind: 'PodDisruptionBudget', name: 'vec-a' }

/** The port over an API server that answers with this, by plural. */
function port(answers: Record<string, 'exists' | 'missing' | KubernetesError>) {
  const calls: string[] = []
  const clock = { now: NOW.getTime() }
  const kubernetes = {
    async get({ plural, namespace = '' }: { plural: string; namespace?: string }, name: string) {
      calls.push(`${namespace}/${plural}/${name}`)
      const answer = answers[plural]
      if (answer instanceof Error) throw answer
      const object = { apiVersion: 'v1', kind: 'Any', metadata: { name } }
      return answer === 'exists' ? object : undefined
    },
  } as unknown as Kubernetes
  return {
    missing: missingObjectsPort(kubernetes, () => new Date(clock.now)),
    calls,
    clock,
    answers,
  }
}

t.test('an object that exists is read once a minute, a missing one each time', async (t) => {
  const { missing, calls, clock, answers } = port({
    services: 'exists',
    poddisruptionbudgets: 'missing',
  })
  t.strictSame(await missing('ns', [SERVICE, BUDGET]), [BUDGET])
  answers['services'] = 'missing'
  t.strictSame(await missing('ns', [SERVICE, BUDGET]), [BUDGET])
  t.strictSame(calls, [
    'ns/services/vec-a',
    'ns/poddisruptionbudgets/vec-a',
    'ns/poddisruptionbudgets/vec-a',
  ])
  clock.now += 60_000
  t.strictSame(await missing('ns', [SERVICE, BUDGET]), [SERVICE, BUDGET])
  answers['services'] = 'exists'
  t.strictSame(await missing('ns', [SERVICE]), [])
})

t.test('an object that may not be read is not missing', async (t) => {
  const error = new KubernetesError('forbidden', { status: 403 })
  const { missing } = port({ poddisruptionbudgets: error })
  t.strictSame(await missing('ns', [BUDGET]), [])
})

t.test('without an answer of the API server, nothing is said', async (t) => {
  const error = new KubernetesError('unavailable', { status: 503 })
  const { missing } = port({ services: error })
  await t.rejects(missing('ns', [SERVICE]), error)
})
