/** Events are written by the real client: each of them once, a few about one object, and none is needed. */
import t, { type Test } from 'tap'
import type { KubernetesEvent } from '../../../crds/kubernetes.ts'
import { API_VERSION } from '../../../crds/contract/names.ts'
import {
  MAX_EVENTS_PER_MINUTE,
  RATE_LIMITED,
  eventWriter,
} from '../../../metacontroller/ports/events.ts'
import { namespaceWarning } from '../../../hooks/events.ts'
import { matchWhole } from '../../match-whole.ts'
import { embeddedApi } from '../embedded.ts'

const HELM_FAILED: KubernetesEvent = {
  metadata: { name: 'a.1', namespace: 'ns' },
  involvedObject: {
    apiVersion: API_VERSION,
    kind: 'VecCluster',
    name: 'a',
    namespace: 'ns',
    uid: 'u',
  },
  type: 'Warning',
  reason: 'HelmFailed',
  message: 'no such chart',
  at: '2026-03-01T12:00:00Z',
}

async function writer(t: Test) {
  const { api, kubernetes } = await embeddedApi(t)
  const lines: string[] = []
  const note = (_: object, line: string) => lines.push(line)
  const write = eventWriter({ kubernetes, log: { debug: note, info: note, warn: note } })
  const written = async () => (await api.list('v1', 'Event', { namespace: 'ns' })).items
  return { api, write, written, lines }
}

t.test('an Event is written once, and a lost one stops nothing', async (t) => {
  const { write, written, lines } = await writer(t)
  await write(HELM_FAILED)
  await write({ ...HELM_FAILED, message: 'again' })
  const events = await written()
  t.equal(events.length, 1)
  t.match(events[0], {
    involvedObject: { kind: 'VecCluster', name: 'a', uid: 'u' },
    type: 'Warning',
    reason: 'HelmFailed',
    message: 'no such chart',
    firstTimestamp: '2026-03-01T12:00:00Z',
    lastTimestamp: '2026-03-01T12:00:00Z',
    count: 1,
    source: { component: 'vec-operator' },
    reportingComponent: 'vec-operator',
  })
  t.strictSame(lines, [])
  await write({ ...HELM_FAILED, metadata: { name: 'a.2', namespace: 'never' } })
  t.strictSame(lines, ['writing event failed'])
})

t.test(
  'Events of a clock that was ahead do not hold back those after it is set back',
  async (t) => {
    const { write, written } = await writer(t)
    const writeAt = async (at: string) => {
      for (let count = 0; count < MAX_EVENTS_PER_MINUTE; count += 1)
        await write({
          ...HELM_FAILED,
          at,
          metadata: { name: `a.${Date.parse(at)}.${count}`, namespace: 'ns' },
        })
    }
    await writeAt('2026-03-02T12:00:00Z')
    await writeAt('2026-03-01T12:00:00Z')
    t.equal((await written()).length, 2 * MAX_EVENTS_PER_MINUTE)
  },
)

t.test('an Event on a namespace that is being deleted is written to default', async (t) => {
  const { api, write, lines } = await writer(t)
  const namespace = { apiVersion: 'v1', kind: 'Namespace', namespace: '', name: 'ns' }
  await api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'default' } })
  await api.delete(namespace)
  await write(HELM_FAILED)
  t.strictSame(lines.splice(0), ['writing event failed'], 'no other is accepted')
  const backup = {
    ...{ apiVersion: API_VERSION, kind: 'VecBackup' },
    metadata: { name: 'b', namespace: 'ns', uid: 'u' },
  }
  const cause = { reason: 'CredentialsMissing', message: 'objects of VecBackup b remain' }
  await write(namespaceWarning(backup, cause, new Date('2026-03-01T12:00:00Z')))
  t.strictSame(lines, [])
  const { items } = await api.list('v1', 'Event', { namespace: 'default' })
  matchWhole(t, items, [{ involvedObject: { kind: 'Namespace', name: 'ns' }, ...cause }])
  t.equal(items.length, 1)
})

t.test('never more than a few Events per object and minute: the rest is in the log', async (t) => {
  const { write, written, lines } = await writer(t)
  const another = (name: string, changes: Partial<KubernetesEvent> = {}) =>
    write({ ...HELM_FAILED, metadata: { name, namespace: 'ns' }, ...changes })
  for (let count = 0; count < MAX_EVENTS_PER_MINUTE + 2; count += 1) await another(`a.${count}`)
  t.equal((await written()).length, MAX_EVENTS_PER_MINUTE)
  t.strictSame(lines, [RATE_LIMITED, RATE_LIMITED])

  const { involvedObject } = HELM_FAILED
  await another('b.1', { involvedObject: { ...involvedObject, name: 'b', uid: 'other' } })
  await another('a.late', { at: '2026-03-01T12:01:00Z' })
  t.equal((await written()).length, MAX_EVENTS_PER_MINUTE + 2, 'another object, and another minute')
})
