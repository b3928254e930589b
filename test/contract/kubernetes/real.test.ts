/** The cases on a real API server. RECORD=1 keeps its answers as the truth for the embedded one. */
import t from 'tap'
import { Agent } from 'undici'
import { realMetacontroller } from '../../cluster/metacontroller.ts'
import { startRealApi } from '../metacontroller/real.ts'
import { CASES } from './cases.ts'
import { NAMESPACE } from './objects.ts'
import { play, record, recordings, versionOf, type Outcome } from './play.ts'

const skip =
  realMetacontroller(process.env) === undefined &&
  'METACONTROLLER_BIN names no Metacontroller: nothing to examine'
const isRecording = process.env['RECORD'] === '1'

t.setTimeout(600_000)
t.test('a real API server accepts and refuses what is recorded', { skip }, async (t) => {
  const ground = await startRealApi((line) => t.comment(line))
  t.teardown(() => ground.close())
  await ground.api.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: NAMESPACE } })
  const { server, token = '', ca } = ground.connection
  const dispatcher = new Agent({ connect: { ...(ca !== undefined && { ca }) } })
  t.teardown(() => dispatcher.close())
  const outcomes: Record<string, Outcome> = {}
  for (const played of CASES) {
    outcomes[played.title] = await play({ url: server, token, dispatcher }, played)
  }
  const version = await versionOf({ url: server, token, dispatcher })
  t.comment(`kube-apiserver ${version}`)
  if (isRecording) record({ version, outcomes })
  t.strictSame(outcomes, recordings().outcomes)
})
