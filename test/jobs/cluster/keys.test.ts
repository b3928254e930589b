/** The Secret with the API keys that nodes accept, as a helm run writes it. */
import t from 'tap'
import {
  keyEntry,
  keyFingerprint,
  KEYS_SECRET_TYPE,
  keyVariables,
  type PlannedKeys,
} from '../../../crds/contract/api-keys.ts'
import { SECRET_CHECKSUM } from '../../../crds/contract/names.ts'
import { unchangedChecksum } from '../../../jobs/cluster/keys.ts'
import { EXIT } from '../../../crds/contract/job.ts'
import { clusterSpec } from '../../builders.ts'
import { matchWhole } from '../../match-whole.ts'
import { jobWorld, type JobWorld } from '../job-world.ts'

const [OLD, NEW, OTHER] = ['old-key', 'new-key', 'other-key'] as const
const [old, next, other] = [OLD, NEW, OTHER].map(keyFingerprint) as [string, string, string]
const SOURCE = { name: 'key', key: 'api' }
const SPEC = clusterSpec({
  apiKey: { autoGenerate: false, jwtRbac: true, secretRef: SOURCE },
})

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

async function userKey(world: JobWorld, value: string) {
  const reference = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'key' }
  const data = { api: base64(value) }
  if ((await world.api.get(reference)) !== undefined) return world.api.patch(reference, { data })
  const metadata = { name: 'key', namespace: 'ns' }
  return world.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data })
}

async function dataOf(world: JobWorld, name: string): Promise<Record<string, string>> {
  const secret = await world.object('v1', 'Secret', name)
  const data = (secret?.['data'] ?? {}) as Record<string, string>
  return Object.fromEntries(
    Object.entries(data).map(([key, value]) => [key, Buffer.from(value, 'base64').toString()]),
  )
}

/** A run with these keys, as the hook plans it. */
function runWith(world: JobWorld, run: number, keys: PlannedKeys) {
  const secretKeyRef = { name: 'vec-a.keys', key: keyEntry(keys.published) }
  const env = keyVariables('a', keys)
  const values = { ...world.plan().values, apiKey: { valueFrom: { secretKeyRef } }, env }
  return world.run('upgrade', world.plan({ run, hash: `hash-${run}`, values, keys, spec: SPEC }))
}

async function generationOf(world: JobWorld): Promise<number | undefined> {
  return (await world.object('apps/v1', 'StatefulSet', 'vec-a'))?.metadata.generation
}

t.test(
  'keys are stored, published without another template, and removed with the field',
  async (t) => {
    const world = await jobWorld(t)
    await userKey(world, OLD)
    const first = await runWith(world, 1, { published: old, accepted: [old], source: SOURCE })
    t.equal(first.code, EXIT.done, first.log)
    t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': OLD })
    const stored = await world.object('v1', 'Secret', 'vec-a.keys')
    matchWhole(t, stored, {
      type: KEYS_SECRET_TYPE,
      metadata: { ownerReferences: [{ uid: world.uid }] },
    })

    await userKey(world, NEW)
    const adding = { published: old, accepted: [old, next], replaces: old, source: SOURCE }
    t.equal((await runWith(world, 2, adding)).code, EXIT.done)
    t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': OLD }, 'the new one is not published')
    t.strictSame(await dataOf(world, 'vec-a.keys'), { [keyEntry(old)]: OLD, [keyEntry(next)]: NEW })
    const added = await generationOf(world)

    const publishing = { ...adding, published: next, former: old, keepsPods: true as const }
    t.equal((await runWith(world, 3, publishing)).code, EXIT.done)
    t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': NEW })
    t.equal(await generationOf(world), added, 'no pod is restarted')
    matchWhole(t, (await world.progress())?.applied, {
      publishedKey: next,
      keys: { published: next, accepted: [old, next], former: old },
    })

    const removing = { published: next, accepted: [next], replaces: next, source: SOURCE }
    t.equal((await runWith(world, 4, removing)).code, EXIT.done)
    t.not(await generationOf(world), added)
    t.ok((await dataOf(world, 'vec-a.keys'))[keyEntry(old)], 'a node may restart with it')

    const without = { ...world.plan().values, apiKey: { valueFrom: { secretKeyRef: SOURCE } } }
    const last = await world.run(
      'upgrade',
      world.plan({ run: 5, hash: 'hash-5', values: without, spec: SPEC }),
    )
    t.equal(last.code, EXIT.done, last.log)
    t.match((await world.progress())?.applied, { publishedKey: next, keys: undefined })
    t.equal(await world.object('v1', 'Secret', 'vec-a.keys'), undefined)
  },
)

t.test('a Secret that is deleted before or while helm runs opens no node', async (t) => {
  const world = await jobWorld(t)
  const plan = (spec: typeof SPEC, more: object = {}) => {
    const values = { ...world.plan().values, apiKey: { valueFrom: { secretKeyRef: SOURCE } } }
    return world.plan({ spec, values: { ...values, ...more } })
  }
  const missing = await world.run('upgrade', plan(SPEC))
  t.equal(missing.code, EXIT.failed, missing.log)
  const message = 'spec.apiKey.secretRef: Secret key has no key api any more'
  t.match(await world.progress(), { state: 'Failed', reason: 'KeysChanged', message })
  t.notMatch(missing.log, /running helm upgrade/)

  await userKey(world, OLD)
  const secretRef = { name: 'key', key: 'reader' }
  const spec = { ...SPEC, readOnlyApiKey: { autoGenerate: false, secretRef } }
  const readOnlyApiKey = { valueFrom: { secretKeyRef: secretRef } }
  const reader = await world.run('upgrade', { ...plan(spec, { readOnlyApiKey }), run: 2 })
  t.equal(reader.code, EXIT.failed, reader.log)
  const ofReader = 'spec.readOnlyApiKey.secretRef: Secret key has no key reader any more'
  t.match(await world.progress(), { reason: 'KeysChanged', message: ofReader })

  const source = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'key' }
  let deletion: Promise<void> | undefined
  const onLine = (line: string) => {
    if (line.includes('running helm upgrade')) deletion ??= world.api.delete(source)
  }
  const late = await world.run('upgrade', { ...plan(SPEC), run: 3 }, { onLine })
  await deletion
  t.equal(late.code, EXIT.failed, late.log)
  const none = 'Secret vec-a-apikey has no key after the helm run'
  t.match(await world.progress(), { reason: 'KeysChanged', message: none, applied: undefined })

  await userKey(world, OLD)
  const last = await world.run('upgrade', { ...plan(SPEC), run: 4 })
  t.equal(last.code, EXIT.done, last.log)
  t.match((await world.progress())?.applied, { publishedKey: old })
})

t.test('a run that another one has overtaken publishes nothing', async (t) => {
  const world = await jobWorld(t)
  await userKey(world, NEW)
  await runWith(world, 1, { published: next, accepted: [next], source: SOURCE })
  await userKey(world, OTHER)
  const outdated = { published: old, accepted: [old, other], replaces: old, source: SOURCE }
  const { code, log } = await runWith(world, 2, outdated)
  t.equal(code, EXIT.failed, log)
  t.match(await world.progress(), {
    ...{ state: 'Failed', reason: 'KeysChanged' },
    message: 'Secret vec-a-apikey has another key than when this run was planned',
  })
  t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': NEW })
})

t.test('a key is not published while pods lose it', async (t) => {
  const world = await jobWorld(t)
  await userKey(world, OLD)
  await runWith(world, 1, { published: old, accepted: [old], source: SOURCE })
  await userKey(world, NEW)
  const publishing = { published: next, accepted: [old, next], former: old, replaces: old }
  t.equal((await runWith(world, 2, { ...publishing, source: SOURCE })).code, EXIT.failed)
  t.match(await world.progress(), {
    ...{ state: 'Failed', reason: 'KeysChanged' },
    message: 'the pods get other keys than when this run was planned',
  })
  t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': OLD })
})

t.test(
  'a rotation begins while a user has written a key of their own over the published one',
  async (t) => {
    const world = await jobWorld(t)
    await userKey(world, OLD)
    await runWith(world, 1, { published: old, accepted: [old], source: SOURCE })
    await userKey(world, NEW)
    const published = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'vec-a-apikey' }
    await world.api.patch(published, { data: { 'api-key': base64(OTHER) } })
    const adding = { published: old, accepted: [old, next], replaces: other, source: SOURCE }
    const { code, log } = await runWith(world, 2, adding)
    t.equal(code, EXIT.done, log)
    t.match(await dataOf(world, 'vec-a-apikey'), { 'api-key': OLD }, 'the key that nodes accept')
    t.strictSame(await dataOf(world, 'vec-a.keys'), { [keyEntry(old)]: OLD, [keyEntry(next)]: NEW })
  },
)

t.test('a key that changed meanwhile, and a Secret of another owner, end the run', async (t) => {
  const world = await jobWorld(t)
  await userKey(world, OLD)
  await runWith(world, 1, { published: old, accepted: [old], source: SOURCE })
  const adding = { published: old, accepted: [old, next], replaces: old, source: SOURCE }
  t.equal((await runWith(world, 2, adding)).code, EXIT.failed)
  t.match(await world.progress(), { message: `the key ${next} is in no Secret any more` })
  await userKey(world, NEW)
  const reference = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'vec-a.keys' }
  await world.api.delete(reference)
  const metadata = { name: 'vec-a.keys', namespace: 'ns' }
  await world.api.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: {} })
  t.equal((await runWith(world, 3, adding)).code, EXIT.failed)
  t.match(await world.progress(), {
    message: 'Secret vec-a.keys already exists and was not created for this VecCluster: delete it',
  })
})

t.test('the checksum of the pods stays only while they get the planned keys', async (t) => {
  const set = (accepted: string[], annotations?: Record<string, string>) => ({
    spec: {
      template: {
        ...(annotations && { metadata: { annotations } }),
        spec: { containers: [{ env: keyVariables('a', { accepted }) }] },
      },
    },
  })
  const both = { published: next, accepted: [old, next], keepsPods: true as const }
  const present = { [SECRET_CHECKSUM]: 'sum' }
  t.equal(unchangedChecksum(both, set([old, next], present)), 'sum')
  t.equal(unchangedChecksum(both, set([next, old], present)), undefined, 'in another order')
  t.equal(unchangedChecksum(both, set([old, other], present)), undefined)
  t.equal(unchangedChecksum(both, set([], present)), undefined)
  t.equal(unchangedChecksum(both, set([old, next])), undefined, 'there is none')
  const { keepsPods: _, ...restarting } = both
  t.equal(unchangedChecksum(restarting, set([old, next], present)), undefined)
  t.equal(unchangedChecksum(undefined, set([], present)), undefined)
})

t.test('a Secret with that name that belongs to another owner is never removed', async (t) => {
  const world = await jobWorld(t)
  const metadata = { name: 'vec-a.keys', namespace: 'ns' }
  const data = { more: base64('x') }
  await world.api.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata,
    type: KEYS_SECRET_TYPE,
    data,
  })
  const { code, log } = await world.run('upgrade', world.plan({ run: 1, hash: 'hash-1' }))
  t.equal(code, EXIT.done, log)
  t.strictSame(await dataOf(world, 'vec-a.keys'), { more: 'x' })
})

t.test('a deleted Secret is written again with the keys that are left', async (t) => {
  const world = await jobWorld(t)
  await userKey(world, OLD)
  await runWith(world, 1, { published: old, accepted: [old], source: SOURCE })
  const reference = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'vec-a.keys' }
  await world.api.delete(reference)
  await userKey(world, NEW)
  const adding = { published: old, accepted: [old, next], replaces: old, source: SOURCE }
  t.equal((await runWith(world, 2, adding)).code, EXIT.done)
  t.strictSame(await dataOf(world, 'vec-a.keys'), { [keyEntry(old)]: OLD, [keyEntry(next)]: NEW })

  const publishing = { ...adding, published: next, former: old, keepsPods: true as const }
  t.equal((await runWith(world, 3, publishing)).code, EXIT.done)
  const generation = await generationOf(world)
  await world.api.delete(reference)
  const { code, log } = await runWith(world, 4, { ...publishing, replaces: next })
  t.equal(code, EXIT.done, log)
  t.strictSame(await dataOf(world, 'vec-a.keys'), { [keyEntry(next)]: NEW })
  t.equal(await generationOf(world), generation, 'pods keep the former key')
})

t.test('a generated key that was deleted is created as it was, and no pod restarts', async (t) => {
  const world = await jobWorld(t)
  const spec = clusterSpec({ apiKey: { autoGenerate: true, jwtRbac: true } })
  const values = { ...world.plan().values, apiKey: true }
  const plan = (run: number) => world.plan({ run, hash: `hash-${run}`, spec, values })
  const first = await world.run('upgrade', plan(1))
  t.equal(first.code, EXIT.done, first.log)
  const generated = await dataOf(world, 'vec-a-apikey')
  const { 'api-key': key = '' } = generated
  t.not(key, '')
  const generation = await generationOf(world)

  await world.api.delete({
    apiVersion: 'v1',
    kind: 'Secret',
    namespace: 'ns',
    name: 'vec-a-apikey',
  })
  const again = { recreatesObjects: true as const, appliedKey: keyFingerprint(key) }
  const second = await world.run('upgrade', { ...plan(2), ...again })
  t.equal(second.code, EXIT.done, second.log)
  t.strictSame(await dataOf(world, 'vec-a-apikey'), generated)
  t.equal(await generationOf(world), generation)
  t.match((await world.progress())?.applied, {
    publishedKey: keyFingerprint(key),
    recreatedObjects: true,
  })
  t.notOk(second.log.includes(key), 'the key is in no log')

  // Without that the nodes restart: with a generated key, the install has a checksum of its own.
  const other = { 'api-key': base64('written-by-another-client') }
  const secret = { apiVersion: 'v1', kind: 'Secret', namespace: 'ns', name: 'vec-a-apikey' }
  await world.api.patch(secret, { data: other })
  const replaced = await world.run('upgrade', { ...plan(3), ...again })
  t.equal(replaced.code, EXIT.done, replaced.log)
  t.not(await generationOf(world), generation, 'for the key of another client nodes restart')

  // The Secret is an object of the release again, and the next run has recreated nothing.
  const last = await world.run('upgrade', plan(4))
  t.equal(last.code, EXIT.done, last.log)
  t.equal((await world.progress())?.applied?.recreatedObjects, undefined)
})

t.test(
  'a generated read-only key of a cluster with a rotated key is created as it was',
  async (t) => {
    const world = await jobWorld(t)
    await userKey(world, OLD)
    const spec = { ...SPEC, readOnlyApiKey: { autoGenerate: true } }
    const keys = { published: old, accepted: [old], source: SOURCE }
    const plan = (run: number) => {
      const secretKeyRef = { name: 'vec-a.keys', key: keyEntry(old) }
      const apiKey = { valueFrom: { secretKeyRef } }
      const more = { apiKey, readOnlyApiKey: true, env: keyVariables('a', keys) }
      const values = { ...world.plan().values, ...more }
      return world.plan({ run, hash: `hash-${run}`, values, keys, spec })
    }
    t.equal((await world.run('upgrade', plan(1))).code, EXIT.done)
    const before = await dataOf(world, 'vec-a-apikey')
    t.not(before['read-only-api-key'] ?? '', '')
    await world.api.delete({
      apiVersion: 'v1',
      kind: 'Secret',
      namespace: 'ns',
      name: 'vec-a-apikey',
    })
    const { code, log } = await world.run('upgrade', plan(2))
    t.equal(code, EXIT.done, log)
    t.strictSame(await dataOf(world, 'vec-a-apikey'), before)
  },
)
