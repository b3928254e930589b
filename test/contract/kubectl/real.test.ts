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
    t.match(found.out, /^ok +Kubernetes +v1\.\d+/, 'doctor: version')
    t.match(found.out, /^ok +CRDs +all 7 are from release \S+ or newer$/m, 'doctor: CRDs')
    t.match(
      found.out,
      /^x +CompositeControllers +no such kind: Metacontroller is not installed$/m,
      'doctor: Metacontroller',
    )
    t.match(
      found.out,
      /^ok +your permissions +sufficient for every command$/m,
      'doctor: permissions',
    )
    t.match(found.out, /^x +bucket b +Secret shop\/keys not found$/m, 'doctor: bucket')
    const made = await owner('backup', 'now', 'nightly', '-n', 'shop')
    const created = { code: EXIT_CODES.success, out: /nightly-\d{8}-\d{6}-manual created\n/ }
    t.match(made, created, 'backup now')
    const listed = await owner('status', '-A')
    t.match(listed.out, /^shop +VecBackup\/nightly-\S+-manual /m, 'status -A')
    const invalid = await owner('backup', 'now', 'nightly', '-n', 'shop', '--name', 'No_Name')
    const rejected = { code: EXIT_CODES.failure, err: /answered 422: .*metadata\.name/ }
    t.match(invalid, rejected, 'backup now with an invalid name')

    const kubeconfig = await ground.kubeconfigOf('shop', 'visitor')
    const visitor = (...args: string[]) => runCommand(args, { KUBECONFIG: kubeconfig })
    const seen = await visitor('doctor', '-n', 'shop')
    t.equal(seen.code, EXIT_CODES.success, 'what may not be seen is not wrong')
    t.match(
      seen.out,
      /^! +CRDs +not checked: customresourcedefinitions\S* "\S+" is forbidden/m,
      'doctor of a visitor: CRDs',
    )
    t.match(
      seen.out,
      /^! +your permissions +no permission to list vecclusters: needed for status and doctor$/m,
      'doctor of a visitor: permissions',
    )
    const unseen = await visitor('status', '-n', 'shop')
    const forbidden = /^vec-operator: GET \S+ answered 403: .* cannot list resource "vecclusters"/
    t.match(unseen, { code: EXIT_CODES.failure, err: forbidden }, 'status of a visitor')
  })
}
