/** Why pods are not ready: what a user would find with kubectl describe. */
import t from 'tap'
import type { Pod } from '../../../crds/kubernetes.ts'
import { formatCauses } from '../../../hooks/cluster/status.ts'

type Status = NonNullable<Pod['status']>

function pod(ordinal: number, status: Status, metadata: object = {}): Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: `vec-a-${ordinal}`, namespace: 'ns', ...metadata },
    status,
  }
}

const waiting = (reason: string, message?: string) => ({
  state: { waiting: { reason, ...(message !== undefined && { message }) } },
})

t.test('the scheduler, the kubelet and the container are quoted', async (t) => {
  const unschedulable = {
    conditions: [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes fit' },
    ],
  }
  t.equal(formatCauses([pod(0, unschedulable)]), 'vec-a-0: 0/3 nodes fit')
  const pulling = {
    containerStatuses: [{ name: 'qdrant', ...waiting('ErrImagePull', 'not found') }],
  }
  t.equal(formatCauses([pod(0, pulling)]), 'vec-a-0: container qdrant: ErrImagePull: not found')
  const init = {
    initContainerStatuses: [
      {
        name: 'chown',
        ...waiting('CrashLoopBackOff', 'back-off 5m0s restarting'),
        lastState: { terminated: { exitCode: 1, reason: 'Error', message: 'read-only' } },
      },
    ],
    containerStatuses: [{ name: 'qdrant', ...waiting('PodInitializing') }],
  }
  t.equal(
    formatCauses([pod(0, init)]),
    'vec-a-0: init container chown: CrashLoopBackOff, exit code 1, read-only',
    'and not how long the kubelet waits, which changes all the time',
  )
  const killed = {
    containerStatuses: [
      { name: 'qdrant', state: { terminated: { exitCode: 137, reason: 'OOMKilled' } } },
    ],
  }
  t.equal(formatCauses([pod(0, killed)]), 'vec-a-0: container qdrant: exit code 137, OOMKilled')
})

t.test('a pod whose volumes cannot be attached or mounted', async (t) => {
  const conditions = [
    { type: 'PodScheduled', status: 'True' },
    { type: 'PodReadyToStartContainers', status: 'False' },
  ]
  const status = {
    conditions,
    initContainerStatuses: [{ name: 'chown', ...waiting('PodInitializing') }],
    containerStatuses: [{ name: 'qdrant', ...waiting('PodInitializing') }],
  }
  t.equal(
    formatCauses([pod(0, status)]),
    'vec-a-0: its volumes or its network are not ready, see `kubectl describe pod`',
  )
  const [scheduled, sandbox] = conditions
  const started = { ...status, conditions: [scheduled, { ...sandbox, status: 'True' }] }
  t.equal(formatCauses([pod(0, started as Status)]), undefined)
})

t.test('pods that are ready, or only starting, have no cause', async (t) => {
  const ready = {
    conditions: [{ type: 'Ready', status: 'True' }],
    containerStatuses: [
      { name: 'qdrant', lastState: { terminated: { exitCode: 1, reason: 'Error' } } },
    ],
  }
  const starting = { containerStatuses: [{ name: 'qdrant', ...waiting('PodInitializing') }] }
  t.equal(formatCauses([pod(0, ready), pod(1, starting), pod(2, {})]), undefined)
  t.equal(formatCauses([]), undefined)
})

t.test('a terminating pod says so', async (t) => {
  const deletionTimestamp = '2026-03-01T12:00:00Z'
  t.equal(formatCauses([pod(0, {}, { deletionTimestamp })]), 'vec-a-0: is terminating')
})

t.test('many pods and long words are cut, control characters removed', async (t) => {
  const bad = (ordinal: number) =>
    pod(ordinal, {
      containerStatuses: [{ name: 'c', ...waiting('X', `\u001b[31m\n${'y'.repeat(9000)}`) }],
    })
  const text = formatCauses([bad(4), bad(1), bad(2), bad(0), bad(3)]) ?? ''
  t.match(text, /^vec-a-0: .*; vec-a-1: .*; vec-a-2: .*; and 2 more$/)
  t.ok(text.length < 800)
  t.notMatch(text, /\p{Cc}/u)
})
