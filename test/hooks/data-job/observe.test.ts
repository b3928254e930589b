import t from 'tap'
import { ANNOTATIONS } from '../../../crds/contract/names.ts'
import { readCopySources, readJobState, readSecrets } from '../../../hooks/data-job/observe.ts'
import type { BucketAccess } from '../../../crds/storage.ts'
import { cluster, configMap, context, secret } from '../../builders.ts'
import { dataJobOf, progressReport } from './fixtures.ts'

const job = dataJobOf({ kind: 'backup', name: 'b', uid: 'uid-b', plan: 'desired' })

t.test('a Job without copies has none read, and no Secret either', async (t) => {
  const asked: string[] = []
  const copy = async (_: string, name: string) => void asked.push(name)
  const secrets = async () => ({ engine: secret({ key: `${asked.push('secrets')}` }) })
  t.strictSame(
    await readCopySources(job, { copiedCredentials: [], secrets }, { secretCopy: copy }),
    { secrets: {} },
  )
  t.strictSame(asked, [])
  await readCopySources(job, { copiedCredentials: ['engine'], secrets }, { secretCopy: copy })
  t.equal(asked.length, 2)
})

t.test(
  'what a bucket names, and the Secrets of its cluster, are read where they are named',
  async (t) => {
    const read = async (
      bucket: string | undefined,
      of: ReturnType<typeof cluster> | undefined,
      authority: BucketAccess = {},
    ) => {
      const asked: string[] = []
      const credentials = bucket && {
        ...{ name: bucket, accessKeyIdKey: 'id', secretAccessKeyKey: 'key' },
      }
      const access = { ...authority, ...(credentials && { credentialsSecretRef: credentials }) }
      const found = await readSecrets({ namespace: 'home', access }, of, {
        async secret(namespace, name) {
          asked.push(`${namespace}/${name}`)
          return name === 'missing' ? undefined : secret({ of: name })
        },
        async configMap(namespace, name) {
          asked.push(`ConfigMap ${namespace}/${name}`)
          return name === 'missing' ? undefined : configMap({ of: name })
        },
      })
      return { asked, found: Object.keys(found) }
    }
    const apiKey = { autoGenerate: true, jwtRbac: false }
    const tls = { enabled: true, secretRef: { name: 'certificates' } }
    const whole = cluster({ namespace: 'far', spec: { apiKey, tls } })
    t.strictSame(await read('keys', whole), {
      asked: ['home/keys', 'far/vec-a-apikey', 'far/certificates'],
      found: ['bucket', 'engine', 'tls'],
    })
    t.strictSame(await read('keys', cluster()), { asked: ['home/keys'], found: ['bucket'] })
    t.strictSame(await read('missing', undefined), { asked: ['home/missing'], found: [] })
    t.strictSame(await read(undefined, undefined), { asked: [], found: [] })
    const named = (name: string) => ({ name, key: 'ca.crt' })
    t.strictSame(await read('keys', cluster(), { caSecretRef: named('root') }), {
      ...{ asked: ['home/keys', 'home/root'], found: ['bucket', 'bucketCa'] },
    })
    t.strictSame(await read(undefined, undefined, { caConfigMapRef: named('root') }), {
      ...{ asked: ['ConfigMap home/root'], found: ['bucketCa'] },
    })
    t.strictSame(await read(undefined, undefined, { caConfigMapRef: named('missing') }), {
      ...{ asked: ['ConfigMap home/missing'], found: [] },
    })
    const unknown = await readSecrets({ namespace: 'home', access: undefined }, undefined, {
      secret: async () => secret({}),
      configMap: async () => configMap({}),
    })
    t.strictSame(unknown, {}, 'the backup with the bucket is not known')
  },
)

interface Resource {
  metadata: { namespace: string; name: string; uid: string; annotations?: Record<string, string> }
  status?: { phase?: string }
}
const resource: Resource = { metadata: { namespace: 'n', name: 'b', uid: 'uid-b' } }
const identity = { kind: 'backup', name: 'b', uid: 'uid-b', plan: 'desired' }
const running = dataJobOf(identity)
const crashed = dataJobOf(identity, { ended: ['Failed', 600] })
const reported = progressReport(identity)

/** Reads of a VecBackup; `live` is what the API server has. */
function stateOf(
  observed: Parameters<typeof readJobState>[0],
  live: Partial<Resource> = {},
): Promise<{ state: unknown; reads: string[]; progress: unknown }> {
  const reads: string[] = []
  const read = async (namespace: string, name: string) => {
    reads.push(`${namespace}/${name}`)
    return live.metadata === undefined ? undefined : { ...resource, ...live }
  }
  return readJobState(observed, resource, read, context).then((state) => ({
    state,
    reads,
    progress: observed.progress,
  }))
}

t.test('a reported outcome is final, and nothing is read', async (t) => {
  const done = { children: [], jobs: [running], progress: { ...reported, state: 'Done' as const } }
  t.strictSame(await stateOf(done), {
    ...{ state: { is: 'finished', resource }, reads: [], progress: done.progress },
  })
})

t.test('a Job that has reported works; one that has not is starting', async (t) => {
  const working = await stateOf({ children: [], jobs: [running], progress: reported })
  t.strictSame(working.state, { is: 'working', job: running })
  const silent = await stateOf({ children: [], jobs: [running] })
  t.strictSame(silent.state, { is: 'starting', job: running })
  const earlier = { ...reported, job: 'uid-of-another-job' }
  const next = await stateOf({ children: [], jobs: [running], progress: earlier })
  t.strictSame(next.state, { is: 'starting', job: running })
  t.strictSame([...working.reads, ...silent.reads, ...next.reads], [])
})

t.test('without a Job, the live resource decides whether it has finished', async (t) => {
  const none = { children: [], jobs: [] }
  t.strictSame(await stateOf(none), {
    ...{ state: { is: 'starting' }, reads: ['n/b'], progress: undefined },
  })
  const finished = { ...resource, status: { phase: 'Completed' } }
  t.strictSame((await stateOf(none, finished)).state, { is: 'finished', resource: finished })
  const pending = { ...resource, status: { phase: 'Pending' } }
  t.strictSame((await stateOf(none, pending)).state, { is: 'starting' })
  const other = { metadata: { ...resource.metadata, uid: 'other' }, status: { phase: 'Completed' } }
  t.strictSame((await stateOf(none, other)).state, { is: 'starting' })
})

t.test('a Job that ended without a reported outcome: the live report is newer', async (t) => {
  const report = { ...reported, state: 'Done' as const }
  const live = {
    metadata: {
      ...resource.metadata,
      annotations: { [ANNOTATIONS.progress]: JSON.stringify(report) },
    },
  }
  const found = await stateOf({ children: [], jobs: [crashed], progress: reported }, live)
  t.strictSame(found.state, { is: 'finished', resource })
  t.strictSame(found.reads, ['n/b'])
  t.match(found.progress, { state: 'Done' })
})
