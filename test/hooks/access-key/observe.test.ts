/** Reads before a decision about a VecAccessKey. */
import t from 'tap'
import { observe, type AccessKeyPorts } from '../../../hooks/access-key/observe.ts'
import { cluster, context, secret } from '../../builders.ts'
import { recordCalls } from '../data-job/fixtures.ts'
import { hookRequest } from '../request.ts'
import { accessKey, jwtCluster, KEY } from './keys.ts'

/** A Secret of this name in the namespace of the resource. */
function named(name: string) {
  const made = secret({ token: 'x' })
  return { ...made, metadata: { ...made.metadata, name } }
}

async function observed(
  { children = [], related = [jwtCluster] }: { children?: object[]; related?: object[] },
  answers: Partial<AccessKeyPorts> = {},
) {
  const { ports, calls: asked } = recordCalls<AccessKeyPorts>({
    secret: async () => secret({ 'api-key': KEY }),
    liveSecret: async () => undefined,
    writeEvent: async () => undefined,
    ...answers,
  })
  return {
    found: await observe(hookRequest(accessKey(), children, related), ports, context),
    asked,
  }
}

t.test('the key of the pods signs, if the cluster has one', async (t) => {
  const { found, asked } = await observed({})
  t.strictSame(found, {
    ...{ accessKey: accessKey(), children: [], cluster: jwtCluster, signingKey: KEY },
  })
  t.strictSame(asked, ['secret ns/vec-a-apikey', 'liveSecret ns/reader'])
  const open = await observed({ related: [cluster()] })
  t.strictSame(open.asked, ['liveSecret ns/reader'])
  t.equal(open.found.signingKey, undefined)
})

t.test('before the first helm run there is no signing key', async (t) => {
  const bare = secret({})
  delete bare.data
  for (const there of [undefined, bare, secret({ other: 'x' })]) {
    const { found } = await observed({}, { secret: async () => there })
    t.equal(found.signingKey, undefined)
  }
  t.equal((await observed({})).found.signingKey, KEY)
})

t.test('without its cluster no key is read', async (t) => {
  const { found, asked } = await observed({ related: [] })
  t.strictSame(asked, ['liveSecret ns/reader'])
  t.equal(found.cluster, undefined)
})

t.test(
  'a Secret of the desired name is read live unless the request has it as a child',
  async (t) => {
    const other = named('reader')
    const live = { liveSecret: async () => other }
    t.strictSame((await observed({ children: [named('older')] }, live)).found.liveSecret, other)
    const result = await observed({ children: [named('older'), other] }, live)
    t.equal(result.found.liveSecret, undefined)
    t.strictSame(result.asked, ['secret ns/vec-a-apikey'])
    t.equal(result.found.children.length, 2)
  },
)
