/** What answers to a recovery mean, and what nodes report about their disks. */
import t from 'tap'
import { EngineError } from '../../../../crds/contract/errors.ts'
import type { Engine } from '../../../../jobs/clients/engine/client.ts'
import { EngineRecovery, hasRecoveryEnded } from '../../../../jobs/clients/engine/recovery.ts'

t.test('after no answer, or that of a proxy, a node may still be recovering', async (t) => {
  const ended = (status?: number) =>
    hasRecoveryEnded(new EngineError('x', status === undefined ? {} : { status }))
  t.strictSame([undefined, 408, 502, 503, 504].map(ended), [false, false, false, false, false])
  t.strictSame([400, 403, 404, 500].map(ended), [true, true, true, true])
})

t.test(
  'the size of the disks is in bytes, and unknown where a node does not report it',
  async (t) => {
    const reported = async (app: object) => {
      const engine = { call: async () => ({ app, collections: {} }) }
      return new EngineRecovery(engine as unknown as Engine).diskBytes()
    }
    t.equal(await reported({ system: { disk_size: 3 } }), 3 * 1024)
    t.equal(await reported({ system: { disk_size: null } }), undefined)
    t.equal(await reported({ system: null }), undefined)
    t.equal(await reported({}), undefined)
  },
)
