/** The command line on a real API server, where the machine has the binaries of one. */
import t from 'tap'
import { API_VERSION } from '../../../crds/contract/names.ts'
import { customResourceDefinition, RESOURCES } from '../../../crds/crd.ts'
import { EXIT_CODES, cliVersion } from '../../../jobs/kubectl/command.ts'
import { realMetacontroller } from '../../cluster/metacontroller.ts'
import { waitFor } from '../../cluster/process.ts'
import { runCommand } from '../../jobs/kubectl/cli-user.ts'
import { applyObject } from '../../world/apply.ts'
import { startRealApi } from '../metacontroller/real.ts'

const title =
  'the command line gets the same answers from a real API server as from the embedded one, whatever the user may do'

const SCHEDULE = {
  apiVersion: API_VERSION,
  kind: 'VecBackupSchedule',
  metadata: { name: 'nightly', namespace: 'shop' },
  spec: {
    schedule: '0 3 * * *',
    clusterRef: { name: 'docs' },
    storage: { s3: { bucket: 'b', credentialsSecretRef: { name: 'keys' } } },
  },
}

if (realMetacontroller(process.env) === undefined) {
  t.test(title, { skip: 'METACONTROLLER_BIN names no Metacontroller' }, async () => undefined)
} else {
  t.setTimeout(600_000)
  t.test(title, async (t) => {
    const ground = await startRealApi((line) => t.comment(line))
    t.teardown(() => ground.close())
    for (const resource of RESOURCES) {
      await applyObject(ground.api, customResourceDefinition(resource, cliVersion()))
    }
    const account = { name: 'visitor', namespace: 'shop' }
    await applyObject(ground.api, {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name: 'shop' },
    })
    await applyObject(ground.api, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
    await waitFor('the CRDs to be served', async () => {
      const served = await ground.api.raw('GET', `/apis/${API_VERSION}`).catch(() => '')
      return RESOURCES.every(({ plural }) => served.includes(`"${plural}"`))
    })
    await applyObject(ground.api, SCHEDULE)

    const owner = (...args: string[]) => runCommand(args, { KUBECONFIG: ground.kubeconfig })
    const found = await owner('doctor')
    t.equal(found.code, EXIT_CODES.failure)
    t.match(found.out, /^ok +Kubernetes +v1\.\d+/)
    t.match(found.out, /^ok +CRDs +all 7 are from release \S+ or newer$/m)
    t.match(found.out, /^x +CompositeControllers +no such kind: Metacontroller is not installed$/m)
    t.match(found.out, /^ok +your permissions +sufficient for every command$/m)
    t.match(found.out, /^x +bucket b +Secret shop\/keys not found$/m)
    const made = await owner('backup', 'now', 'nightly', '-n', 'shop')
    t.match(made, { code: EXIT_CODES.success, out: /nightly-\d{8}-\d{6}-manual created\n/ })
    t.match((await owner('status', '-A')).out, /^shop +VecBackup\/nightly-\S+-manual /m)
    t.match(await owner('backup', 'now', 'nightly', '-n', 'shop', '--name', 'No_Name'), {
      code: EXIT_CODES.failure,
      err: /answered 422: .*metadata\.name/,
    })

    const kubeconfig = await ground.kubeconfigOf('shop', 'visitor')
    const visitor = (...args: string[]) => runCommand(args, { KUBECONFIG: kubeconfig })
    const seen = await visitor('doctor', '-n', 'shop')
    t.equal(seen.code, EXIT_CODES.success, 'what may not be seen is not wrong')
    t.match(seen.out, /^! +CRDs +not checked: customresourcedefinitions\S* "\S+" is forbidden/m)
    t.match(
      seen.out,
      /^! +your permissions +no permission to list vecclusters: needed for status and doctor$/m,
    )
    t.match(await visitor('status', '-n', 'shop'), {
      code: EXIT_CODES.failure,
      err: /^vec-operator: GET \S+ answered 403: .* cannot list resource "vecclusters"/,
    })
  })
}
