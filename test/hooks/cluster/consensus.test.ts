/** The condition Consensus, from what each pod knows of the others. */
import t from 'tap'
import { KubernetesError } from '../../../crds/contract/errors.ts'
import { consensusCondition, withSilentThreads } from '../../../hooks/cluster/consensus.ts'
import type { PodConsensus } from '../../../hooks/cluster/ports.ts'
import { observed } from '../../builders.ts'

/** A pod whose peer id is 10 more than its ordinal, and whom it knows by ordinal. */
function pod(ordinal: number, known: number[], hasLeader = true): PodConsensus {
  const peers = known.map((peer) => ({ id: 10 + peer, ordinal: peer }))
  return { ordinal, state: 'working', peerId: 10 + ordinal, peers, hasLeader }
}

const unanswering = (ordinal: number): PodConsensus => ({ ordinal, state: 'unknown' })

function result(...consensus: PodConsensus[]) {
  const { status, reason, message } = consensusCondition(observed({ consensus })) ?? {}
  return [status, reason, message]
}

t.test('pods that all know each other and a leader agree', async (t) => {
  t.strictSame(result(pod(0, [0, 1, 2]), pod(1, [0, 1, 2]), pod(2, [0, 1, 2])), [
    'True',
    'ConsensusWorking',
    'consensus works on 3 nodes',
  ])
})

t.test('a pod that founded a separate cluster is a split brain, also behind Ready', async (t) => {
  t.strictSame(result(pod(0, [0]), pod(1, [1, 2]), pod(2, [1, 2])), [
    'False',
    'SplitBrain',
    'the pods form 2 separate clusters: vec-a-0 | vec-a-1, vec-a-2; backups, restores, migrations and helm runs wait until they form one cluster',
  ])
  t.equal(result(pod(0, [0, 1]), pod(1, [0, 1]), pod(2, [2]))[1], 'SplitBrain')
})

t.test('a pod that rejoined with a new peer id is not the peer of before', async (t) => {
  const former = { id: 99, ordinal: 1 }
  const first = { ...pod(0, [0]), peers: [{ id: 10, ordinal: 0 }, former] }
  t.equal(result(first, pod(1, [1]))[1], 'SplitBrain')
})

t.test('a pod that the others do not know is missing, with its name', async (t) => {
  t.strictSame(result(pod(0, [0, 1]), pod(1, [0, 1]), unanswering(2)), [
    'False',
    'PeersMissing',
    'vec-a-0 does not know vec-a-2; vec-a-1 does not know vec-a-2',
  ])
  const oneWay = result(pod(0, [0, 1]), pod(1, [1]))
  t.strictSame(oneWay.slice(1), ['PeersMissing', 'vec-a-1 does not know vec-a-0'])
})

t.test('a stopped pod that no working one lists, and lists none, was removed', async (t) => {
  const stopped = (known: number[]): PodConsensus => ({ ...pod(2, known), state: 'stopped' })
  const members = [pod(0, [0, 1]), pod(1, [0, 1])] as const
  t.strictSame(result(...members, stopped([2])), [
    'False',
    'PeersMissing',
    'the other nodes have removed vec-a-2, which cannot join again with the same volume',
  ])
  const reasonOf = (...pods: PodConsensus[]) => result(...pods)[1]
  const isListedOnce = [pod(0, [0, 1]), pod(1, [0, 1, 2])] as const
  t.equal(reasonOf(...isListedOnce, stopped([2])), 'ConsensusStopped', 'they may not agree yet')
  t.equal(reasonOf(...members, stopped([0, 1, 2])), 'ConsensusStopped', 'its thread has failed')
  t.equal(reasonOf(stopped([2])), 'ConsensusStopped', 'no other pod says so')
  const { peerId: _, ...unnamed } = stopped([2])
  t.equal(reasonOf(...members, unnamed), 'ConsensusStopped', 'no peer id is known')
  const another: PodConsensus = { ...pod(1, [0, 1]), state: 'stopped', error: 'no more' }
  t.strictSame(result(pod(0, [0, 1]), pod(3, [0, 3]), another, stopped([2])).slice(1), [
    'ConsensusStopped',
    'vec-a-1: no more; vec-a-2: stopped',
  ])
})

t.test('a node that founded a cluster alone does not make the others removed ones', async (t) => {
  const failed = (ordinal: number): PodConsensus => ({ ...pod(ordinal, [1, 2]), state: 'stopped' })
  t.equal(result(pod(0, [0]), failed(1), failed(2))[1], 'ConsensusStopped')
  const alone = (ordinal: number): PodConsensus => ({
    ...pod(ordinal, [ordinal]),
    state: 'stopped',
  })
  t.equal(result(pod(0, [0]), alone(1), alone(2))[1], 'ConsensusStopped', 'they are the majority')
})

t.test('a silent pod that the others know is Unknown, not missing', async (t) => {
  t.strictSame(result(pod(0, [0, 1]), unanswering(1)), [
    'Unknown',
    'PodsNotAnswering',
    'no answer from vec-a-1',
  ])
  const byOtherName = { ...pod(0, [0]), peers: [{ id: 10 }, { id: 77 }] }
  t.equal(
    result(byOtherName, unanswering(1))[1],
    'PodsNotAnswering',
    'an address that is no pod name',
  )
})

t.test('pods that do not answer are named with the error of the first one', async (t) => {
  const failed = (ordinal: number, error: string) => ({ ...unanswering(ordinal), error })
  const tls = 'GET https://vec-a-0:6333/cluster got no answer: TLS verification failed: self-signed'
  t.strictSame(result(failed(0, tls), failed(1, 'the same'), unanswering(2)), [
    'Unknown',
    'PodsNotAnswering',
    `no answer from vec-a-0, vec-a-1, vec-a-2: ${tls}`,
  ])
  const long = result(failed(0, 'x'.repeat(2000)), { ...unanswering(1), rejection: 401 })[2]
  t.match(long, /^no answer from vec-a-0: x{500}; the API key in Secret .* is refused \(401\)/)
})

t.test('pods that refuse the API key are named with the status code and the Secret', async (t) => {
  const refusing = (ordinal: number, rejection: number) => ({ ...unanswering(ordinal), rejection })
  t.strictSame(result(refusing(0, 401), refusing(1, 401)), [
    'Unknown',
    'PodsNotAnswering',
    'the API key in Secret vec-a-apikey is refused (401) by vec-a-0, vec-a-1, which use another key',
  ])
  const all = [0, 1, 2, 3]
  t.equal(
    result(pod(0, all), unanswering(1), refusing(2, 401), refusing(3, 403))[2],
    'no answer from vec-a-1; the API key in Secret vec-a-apikey is refused (401, 403) by vec-a-2, vec-a-3, which use another key',
  )
})

t.test('pods without a leader cannot agree on anything', async (t) => {
  const lost = [pod(0, [0, 1, 2], false), pod(1, [0, 1, 2], false), pod(2, [0, 1, 2])]
  t.strictSame(result(...lost), ['False', 'NoLeader', 'no leader is known to vec-a-0, vec-a-1'])
  const election = [pod(0, [0, 1, 2], false), pod(1, [0, 1, 2]), pod(2, [0, 1, 2])]
  t.equal(result(...election)[0], 'True', 'one that lags behind an election')
})

t.test('a peer without a pod is named, for it counts in every majority', async (t) => {
  const peers = [...(pod(0, [0]).peers ?? []), { id: 4711, ordinal: 3 }]
  t.strictSame(
    result({ ...pod(0, [0]), peers })[2],
    'consensus works on 1 nodes; peers without a pod: 4711',
  )
})

t.test('pods that could not be asked are Unknown; a loss that was seen stays', async (t) => {
  const consensusFailure = { error: new KubernetesError('GET secrets/vec-a-apikey answered 403') }
  const said = (...consensus: PodConsensus[]) =>
    consensusCondition(observed({ consensusFailure, ...(consensus.length > 0 && { consensus }) }))
  const unknown = {
    ...{ type: 'Consensus', status: 'Unknown', reason: 'PodsNotAnswering' },
    message: 'querying the pods failed: GET secrets/vec-a-apikey answered 403',
  }
  t.strictSame(said(pod(0, [0, 1]), pod(1, [0, 1])), unknown, 'what they said is too old')
  t.strictSame(said(), unknown)
  t.equal(said(pod(0, [0]), pod(1, [1]))?.reason, 'SplitBrain')
})

t.test('only a member of a cluster whose time does not change counts as silent', async (t) => {
  const at = (minutes: number) => new Date(Date.UTC(2026, 0, 1, 0, minutes))
  const silent = { ...pod(0, [0, 1]), lastUpdate: 'then', unchangedSince: at(0) }
  const statesOf = (pods: PodConsensus[], previous: PodConsensus[], minutes: number) =>
    withSilentThreads(pods, previous, at(minutes)).map(({ state }) => state)
  const { unchangedSince: _, ...reported } = silent
  t.strictSame(statesOf([reported], [silent], 2), ['working'])
  t.strictSame(statesOf([reported], [silent], 3), ['stopped'])
  t.strictSame(statesOf([reported], [{ ...silent, state: 'stopped' }], 4), ['stopped'])
  t.strictSame(statesOf([{ ...reported, lastUpdate: 'now' }], [silent], 3), ['working'])
  t.strictSame(statesOf([{ ...reported, peerId: 99 }], [silent], 3), ['working'], 'another node')
  t.strictSame(statesOf([reported], [{ ...silent, ordinal: 1 }], 3), ['working'])
  t.strictSame(statesOf([reported], [], 3), ['working'], 'the first query')
  t.strictSame(statesOf([reported], [silent], -60), ['working'], 'a clock that was set back')
  const alone = { ...reported, peers: [{ id: 10, ordinal: 0 }] }
  t.strictSame(statesOf([alone], [{ ...alone, unchangedSince: at(0) }], 3), ['working'])
  t.strictSame(statesOf([pod(0, [0, 1])], [pod(0, [0, 1])], 3), ['working'], 'no time is reported')
})
