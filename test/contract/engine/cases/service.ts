/** Probes, versions, routes and bodies: facts sections 0, 1 and 10. */
import type { Case } from '../case.ts'
import { created } from './making.ts'

export const SERVICE: Case[] = [
  {
    title: 'probes are plain text and the version has no envelope',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      for (const path of ['/readyz', '/livez', '/healthz', '/']) await stage.call('GET', path)
    },
  },
  {
    title: 'an unknown route or method is 404 with an empty body, and trailing slashes are ignored',
    async play(stage) {
      await created(stage, 'docs')
      await stage.call('GET', '/nope')
      await stage.call('POST', '/cluster')
      await stage.call('GET', '/collections/docs/nope')
      await stage.call('POST', '/collections/docs', { body: {} })
      await stage.call('DELETE', '/collections/docs/aliases')
      await stage.call('GET', '/collections/')
      await stage.call('GET', '/collections/docs/exists/')
    },
  },
  {
    title: 'a body that is no JSON, of another shape or too large is 400, a value out of range 422',
    async play(stage) {
      const put = (body: unknown) => stage.call('PUT', '/collections/bad', { body })
      await put('{')
      await put('')
      await put('{"hnsw_config":{"m":"x"}}')
      await put({ hnsw_config: { ef_construct: 1 } })
      await put({ shard_number: 0 })
      await put({ replication_factor: -1 })
      const large = JSON.stringify({ points: [], filler: 'x'.repeat(32 * 1024 * 1024) })
      const answer = await stage.ask('PUT', '/collections/bad/points', { body: large }).then(
        ({ status }) => status,
        // It answers early and closes: a client that still writes sees that first.
        () => 400,
      )
      stage.note('a body of more than 32 MiB', answer)
    },
  },
  {
    title: 'timeout is at least one second',
    async play(stage) {
      await stage.call('PUT', '/collections/bad?timeout=0', { body: {} })
      await stage.call('PUT', '/collections/bad?timeout=x', { body: {} })
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'GET /cluster reports peers, leader and the state of the consensus thread',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      for (let node = 0; node < stage.nodes; node += 1) {
        const { body } = await stage.ask('GET', '/cluster', { node })
        const { raft_info: raft, ...view } = (body as { result: { raft_info?: object } }).result
        stage.note(`seen from node ${node}`, view)
        if (raft === undefined) continue
        stage.note('fields of raft_info', Object.keys(raft).sort())
        stage.note('a leader', typeof (raft as { leader: unknown }).leader)
      }
    },
  },
  {
    title: 'GET /issues lists nothing where no query was slow',
    sizes: ['alone', 'one', 'three'],
    async play(stage) {
      await created(stage, 'docs')
      await stage.call('GET', '/issues')
      await stage.call('GET', '/issues/')
    },
  },
]
