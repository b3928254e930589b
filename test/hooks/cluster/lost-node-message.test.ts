/** What a user reads about lost nodes: whether they can be replaced, and what is lost with them. */
import t from 'tap'
import { lostNodeMessage } from '../../../hooks/cluster/nodes.ts'

const NODE = { ordinal: 2, peer: 102, evidence: 'its volume was deleted', isConfirmed: false }
const START = 'node 2 has lost its data (its volume was deleted): '

function shards(count: number): string[] {
  return Array.from({ length: count }, (_, shard) => `docs/${shard}`)
}

function messageWith(onlyOn: { peer: number; shards: string[] }[], backups: string[] = []) {
  return lostNodeMessage([NODE], { onlyOn, backups })
}

t.test('a node without a last replica can be replaced, also if another one has some', async (t) => {
  const safe = `${START}every shard on it has an Active replica on another node, so it can be replaced: annotate the VecCluster with vec-operator.dev/replace="2"`
  t.equal(messageWith([]), safe)
  t.equal(messageWith([{ peer: 101, shards: ['docs/1'] }]), safe)
})

t.test('a node that is replaced without being asked says when', async (t) => {
  t.equal(
    lostNodeMessage([{ ...NODE, isAwaited: true }], { onlyOn: [], backups: [] }),
    `${START}every shard on it has an Active replica on another node, so it is replaced once this has lasted for ten minutes; to have it done at once, annotate the VecCluster with vec-operator.dev/replace="2"`,
  )
})

t.test('an annotation of an earlier loss must be removed and set again', async (t) => {
  const message = lostNodeMessage([{ ...NODE, ineffective: { ordinal: 2, peer: 7 } }], {
    onlyOn: [],
    backups: [],
  })
  t.match(
    message,
    /so it can be replaced: remove the annotation vec-operator\.dev\/replace, which gave up the earlier peer 7, and set vec-operator\.dev\/replace="2" again$/,
  )
})

t.test('five shards are listed, and the rest is counted', async (t) => {
  const lost = (count: number) => messageWith([{ peer: 102, shards: shards(count) }])
  const end =
    ': restore them from a backup (a VecRestore with spec.shards), or delete their collections; no Completed VecBackup of the cluster exists'
  const five = 'docs/0, docs/1, docs/2, docs/3, docs/4'
  t.equal(lost(5), `${START}no other node has an Active replica of ${five}${end}`)
  t.equal(lost(7), `${START}no other node has an Active replica of ${five} and 2 more${end}`)
})

t.test('the newest backups are listed', async (t) => {
  const message = messageWith([{ peer: 102, shards: ['docs/1'] }], ['ns/b2', 'ns/b1'])
  t.match(message, /; the newest Completed backups: ns\/b2, ns\/b1$/)
})

t.test('each lost node has its own part of the message', async (t) => {
  const other = { ordinal: 0, peer: 100, evidence: 'its volume is a new one', isConfirmed: false }
  const message = lostNodeMessage([other, NODE], {
    onlyOn: [{ peer: 100, shards: ['docs/1'] }],
    backups: [],
  })
  const [first = '', second = ''] = message.split('exists; ')
  t.match(
    first,
    /^node 0 has lost its data \(its volume is a new one\): no other node has .* docs\/1:/,
  )
  t.match(second, /^node 2 has lost its data .* it can be replaced: .*="2"$/)
})
