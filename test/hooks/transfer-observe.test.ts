import t from 'tap'
import type { Reported, ShownJobs } from '../../hooks/observations.ts'
import { readOriginals, readReport, readSecrets } from '../../hooks/transfer-observe.ts'
import { ANNOTATIONS } from '../../crds/names.ts'
import { cluster, secret } from '../builders.ts'
import { reportOf, transferJobOf } from './transfer.ts'

const transfer = { kind: 'backup', uid: 'uid-b', plan: 'wanted' }
const job = transferJobOf(transfer)
const named = { metadata: { namespace: 'ns', name: 'b', uid: 'uid-b' } }

function live(uid: string, said?: object): () => Promise<Reported> {
  const annotations = said === undefined ? {} : { [ANNOTATIONS.progress]: JSON.stringify(said) }
  return async () => ({ metadata: { uid, annotations } })
}

t.test('the newest report is that of the resource itself, not of a namesake', async (t) => {
  const report = reportOf(transfer, { state: 'Done' })
  const older = reportOf(transfer)
  const read = async (from: () => Promise<Reported>) => {
    const shown: ShownJobs = { children: [], jobs: [job], progress: older }
    await readReport(shown, named, from)
    return shown.progress
  }
  t.strictSame(await read(live('uid-b', report)), report)
  t.strictSame(await read(live('uid-of-another', report)), older)
  t.strictSame(await read(live('uid-b')), older, 'nothing is told there')
})

t.test('what was told is not forgotten because the resource is gone', async (t) => {
  const shown: ShownJobs = { children: [], jobs: [], progress: reportOf(transfer) }
  await readReport(shown, named, async () => undefined)
  t.strictSame(shown.progress, reportOf(transfer))
})

t.test('a Job without copies has none read, and no Secret either', async (t) => {
  const asked: string[] = []
  const copy = async (_: string, name: string) => void asked.push(name)
  const secrets = async () => ({ engine: secret({ key: `${asked.push('secrets')}` }) })
  t.strictSame(await readOriginals(job, { copied: [], secrets }, { copy }), { secrets: {} })
  t.strictSame(asked, [])
  await readOriginals(job, { copied: ['engine'], secrets }, { copy })
  t.equal(asked.length, 2)
})

t.test('the Secrets of a bucket and of its cluster are read where they are named', async (t) => {
  const read = async (bucket: string | undefined, of: ReturnType<typeof cluster> | undefined) => {
    const asked: string[] = []
    const found = await readSecrets({ namespace: 'home', name: bucket }, of, {
      async secret(namespace, name) {
        asked.push(`${namespace}/${name}`)
        return name === 'missing' ? undefined : secret({ of: name })
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
})
