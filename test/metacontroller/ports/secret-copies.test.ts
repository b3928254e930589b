/** Copies of Secrets: of their owner alone, and never older than what is there. */
import t, { type Test } from 'tap'
import type { Secret } from '../../../crds/kubernetes.ts'
import { secretCopyPorts } from '../../../metacontroller/ports/common.ts'
import { embeddedApi } from '../embedded.ts'

const NAME = { namespace: 'ns', name: 'backup-run-1-engine' }
const REFERENCE = { apiVersion: 'v1', kind: 'Secret', ...NAME }

function copy(value: string, ownerUid = 'uid-job'): Secret {
  const owner = { apiVersion: 'batch/v1', kind: 'Job', name: 'backup-run-1', uid: ownerUid }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { ...NAME, ownerReferences: [owner] },
    type: 'Opaque',
    data: { 'api-key': Buffer.from(value).toString('base64') },
  }
}

async function stage(t: Test) {
  const { api, kubernetes } = await embeddedApi(t)
  const ports = secretCopyPorts(kubernetes)
  const stored = async () => {
    const found = await ports.secretCopy(NAME.namespace, NAME.name)
    const value = found?.data?.['api-key']
    return value === undefined ? undefined : Buffer.from(value, 'base64').toString()
  }
  return { api, ports, stored }
}

t.test('a copy is created, kept equal to its source, and deleted', async (t) => {
  const { ports, stored } = await stage(t)
  t.equal(await stored(), undefined)
  await ports.writeSecretCopy(copy('one'))
  t.equal(await stored(), 'one')
  await ports.writeSecretCopy(copy('two'))
  t.equal(await stored(), 'two')
  await ports.deleteSecretCopy({ ...NAME, ownerUid: 'uid-job' })
  t.equal(await stored(), undefined)
  await ports.deleteSecretCopy({ ...NAME, ownerUid: 'uid-job' })
})

for (const [whose, owners] of [
  ["a user's", []],
  ["another Job's", copy('', 'uid-other').metadata.ownerReferences],
] as const) {
  t.test(`a Secret of that name that is ${whose} is not changed`, async (t) => {
    const { api, ports, stored } = await stage(t)
    const metadata = { ...NAME, ownerReferences: owners }
    await api.create({ ...copy('theirs'), metadata })
    await ports.writeSecretCopy(copy('ours'))
    await ports.deleteSecretCopy({ ...NAME, ownerUid: 'uid-job' })
    t.equal(await stored(), 'theirs')
  })
}

t.test('two that make the same copy at once both continue, with one copy', async (t) => {
  const { api, ports, stored } = await stage(t)
  await Promise.all([ports.writeSecretCopy(copy('same')), ports.writeSecretCopy(copy('same'))])
  await Promise.all([ports.writeSecretCopy(copy('new')), ports.writeSecretCopy(copy('new'))])
  t.equal(await stored(), 'new')
  t.equal((await api.list('v1', 'Secret', { namespace: 'ns' })).items.length, 1)
  t.match(await api.get(REFERENCE), { metadata: copy('new').metadata })
})

t.test('a rejection by the API for another reason is an error', async (t) => {
  const { ports } = await stage(t)
  const unnamed = { ...copy('x'), metadata: { ...copy('x').metadata, name: 'Not a name' } }
  await t.rejects(ports.writeSecretCopy(unnamed), { code: 'KubernetesError' })
})
