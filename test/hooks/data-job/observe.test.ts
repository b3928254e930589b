import t from 'tap'
import { readCopySources, readSecrets } from '../../../hooks/data-job/observe.ts'
import { cluster, secret } from '../../builders.ts'
import { dataJobOf } from './fixtures.ts'

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
