/** Warnings of a real API server about our pods in a namespace under the standard "restricted". */
import t from 'tap'
import { newJob } from '../../../hooks/job.ts'
import { settings } from '../../builders.ts'
import { CHART, runHelm } from '../../chart/helm.ts'
import { realMetacontroller } from '../../cluster/metacontroller.ts'
import { run, succeeds } from '../../cluster/process.ts'
import { prepareTools, type Tools } from '../../cluster/tools.ts'
import { startRealApi, type RealApi } from './real.ts'

const NAMESPACE = 'vec-system'
const RESTRICTED = {
  apiVersion: 'v1',
  kind: 'Namespace',
  metadata: { name: NAMESPACE, labels: { 'pod-security.kubernetes.io/warn': 'restricted' } },
}

const skip =
  realMetacontroller(process.env) === undefined &&
  'METACONTROLLER_BIN names no Metacontroller: nothing to examine'

t.setTimeout(600_000)
t.test('our own pods raise no warning under the standard restricted', { skip }, async (t) => {
  const log = (line: string) => t.comment(line)
  const ground = await startRealApi(log)
  t.teardown(() => ground.close())
  await ground.api.create(RESTRICTED)
  const tools = await prepareTools(log)
  const warned = (object: string) => isWarnedOf(ground, tools, object)

  for (const kind of ['cluster', 'backup', 'restore', 'migration']) {
    t.notOk(await warned(JSON.stringify(jobOf(kind))), `a Job of a ${kind}`)
  }
  const chart = ['template', 'vec-operator', CHART, '--namespace', NAMESPACE]
  const values = ['--kube-version', 'v1.34.0', '--set', 'imagePullSecrets[0].name=registry']
  for (const template of ['deployment', 'uninstall-check', 'install-check']) {
    const only = ['--show-only', `templates/${template}.yaml`]
    t.notOk(await warned(await runHelm(tools.helm, [...chart, ...values, ...only])), template)
  }
  t.ok(
    await warned(JSON.stringify(jobOf('cluster', { hostNetwork: true }))),
    'another Job raises one',
  )
})

/** Nothing is stored: the server judges the object as if it were to be made. */
async function isWarnedOf({ kubeconfig }: RealApi, { kubectl }: Tools, object: string) {
  const judged = ['create', '--dry-run=server', '--warnings-as-errors', '-f', '-']
  return !(await succeeds(run(kubectl, ['--kubeconfig', kubeconfig, ...judged], { input: object })))
}

/** With all that a Job of that kind may mount. */
function jobOf(kind: string, more: object = {}) {
  const plan = { namespace: NAMESPACE, name: 'a', uid: 'u', run: 1, hash: 'h' }
  const job = newJob(
    {
      ...{ kind, verb: 'run', plan, largeField: 'spec', serviceAccount: 'default' },
      resources: settings.jobResources.data,
      credentials: { bucket: 'bucket', engine: 'key' },
      secretCopies: ['tls'],
    },
    { ...settings, imagePullSecrets: ['registry'] },
  )
  const { template } = job['spec'] as { template: { spec: object } }
  Object.assign(template.spec, more)
  return job
}
