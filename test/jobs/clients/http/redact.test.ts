/** What LOG_LEVEL DEBUG shows of calls to the outside, and what no log and no message shows. */
import { chmodSync } from 'node:fs'
import t, { type Test } from 'tap'
import { EngineConnections, urlTransport } from '../../../../jobs/clients/engine/transport.ts'
import { Engine } from '../../../../jobs/clients/engine/client.ts'
import { Helm } from '../../../../jobs/clients/helm.ts'
import { redact, stripQuery } from '../../../../jobs/clients/http/redact.ts'
import { jobLog } from '../../../../jobs/log.ts'
import { startScriptedApi } from '../../../doubles/scripted-api.ts'

const SECRETS = {
  key: 'sesame-of-the-engine',
  password: 'sesame-of-the-mirror',
  config: 'sesame-in-config',
}

/** A logger at DEBUG, and all it has written. */
function debugLog(format: string) {
  let text = ''
  const env = { LOG_LEVEL: 'DEBUG', LOG_FORMAT: format }
  return { log: jobLog(env, { write: (line) => (text += line) }), text: () => text }
}

function helmThat(t: Test, script: string, log: ReturnType<typeof jobLog>): Helm {
  const folder = t.testdir({ helm: `#!/bin/sh\n${script}\n` })
  chmodSync(`${folder}/helm`, 0o755)
  return new Helm(log, { env: { ...process.env, PATH: `${folder}:${process.env['PATH'] ?? ''}` } })
}

const upgrade = {
  ...{ release: 'vec-a', chart: 'qdrant', version: '1.18.3', namespace: 'ns' },
  repository: `https://robot:${SECRETS.password}@charts.example/engine`,
  values: { config: { service: { key: SECRETS.config } } },
}

for (const format of ['json', 'text']) {
  t.test(`DEBUG logs every helm command line without its secrets, as ${format}`, async (t) => {
    const { log, text } = debugLog(format)
    await helmThat(t, 'cat > /dev/null', log).upgrade(upgrade)
    t.match(text(), 'helm upgrade --install vec-a qdrant --repo https://***@charts.example/engine')
    t.match(text(), '--version 1.18.3 --namespace ns')
    for (const secret of Object.values(SECRETS)) t.notOk(text().includes(secret), secret)
  })

  t.test(`DEBUG logs every engine request without its secrets, as ${format}`, async (t) => {
    const { log, text } = debugLog(format)
    const api = await startScriptedApi(() => ({
      status: 200,
      body: { result: { collections: [] } },
    }))
    const connections = new EngineConnections()
    t.teardown(async () => {
      await connections.close()
      await api.close()
    })
    const credentials = async () => ({ key: SECRETS.key })
    const engine = new Engine({ transport: urlTransport(api.url, connections), credentials, log })
    t.strictSame(await engine.collections(), [])
    t.equal(api.calls[0]?.headers['api-key'], SECRETS.key)
    t.match(text(), 'GET /collections')
    t.match(text(), api.url)
    t.notOk(text().includes(SECRETS.key))
  })
}

t.test("helm's own words about a repository lose the password in its address", async (t) => {
  const { log } = debugLog('json')
  const script = `echo 'Error: looks like "${upgrade.repository}" is not a chart repository' >&2; exit 1`
  await t.rejects(helmThat(t, script, log).upgrade(upgrade), {
    message: 'looks like "https://***@charts.example/engine" is not a chart repository',
  })
})

t.test('the address of an engine loses its password in every message', async (t) => {
  const connections = new EngineConnections()
  t.teardown(() => connections.close())
  const route = urlTransport(`http://me:${SECRETS.password}@127.0.0.1:9`, connections)
  t.equal(route.node, 'http://***@127.0.0.1:9')
  const call = { method: 'GET', path: '/', headers: {}, timeoutMs: 5_000 } as const
  await t.rejects(route.send(call, undefined), {
    message: /^GET http:\/\/\*{3}@127\.0\.0\.1:9\/ got no answer: (?!.*sesame)/,
  })
})

t.test('a presigned address loses what signs it', async (t) => {
  const signed =
    'https://s3.example/b/k?X-Amz-Credential=AK%2F1&X-Amz-Expires=3600&X-Amz-Signature=ab12'
  t.equal(
    redact(`no answer from "${signed}"`),
    'no answer from "https://s3.example/b/k?X-Amz-Credential=***&X-Amz-Expires=3600&X-Amz-Signature=***"',
  )
  t.equal(redact('GET /collections/a@b and //x'), 'GET /collections/a@b and //x')
})

const SECRET = '?X-Amz-Signature=0123&X-Amz-Credential=abcd'

t.test('the query of every address is removed from a message, and nothing else', async (t) => {
  const texts: [string, string][] = [
    ['no address', 'no address'],
    [`url (http://s3/b/k${SECRET})`, 'url (http://s3/b/k)'],
    [`"HTTPS://s3/a${SECRET}": failed`, '"HTTPS://s3/a": failed'],
    [`http://s3/a${SECRET}, then http://s3/b${SECRET}.`, 'http://s3/a, then http://s3/b.'],
    ['is http://s3/a there? yes', 'is http://s3/a there? yes'],
    ['http://s3/a was called, why?', 'http://s3/a was called, why?'],
  ]
  t.strictSame(
    texts.map(([text]) => stripQuery(text)),
    texts.map(([, stripped]) => stripped),
  )
})
