/**
 * An existing cluster, named by KUBECONFIG. It already has Metacontroller and our image, and runs the
 * real engine and its chart. None of these is stopped or restarted.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { StoreAccess } from '../world/buckets/buckets.ts'
import { applyObject } from '../world/apply.ts'
import { ApiClient } from '../world/client.ts'
import { PULL_SECRET, pullSecret } from '../world/pull-secret.ts'
import { NotSupported } from '../world/world.ts'
import { HELM_TEST, JOB_VOLUMES, NAMESPACE, PULLED, RELEASE, UNINSTALL } from './install.ts'
import type { Ground } from './ground.ts'
import { run } from './process.ts'
import { prepareHelm, type Log } from './tools.ts'

/** IMAGE names the operator's image, as it was loaded into the cluster. */
export async function openForeignGround(
  kubeconfig: string,
  env: NodeJS.ProcessEnv,
  log: Log,
): Promise<Ground> {
  const image = env['IMAGE']
  if (image === undefined) {
    throw new Error('IMAGE is not set: with KUBECONFIG it names the image you loaded, name:tag')
  }
  const helm = await prepareHelm(log)
  const proxy = await startProxy(kubeconfig)
  const kubectl = (args: string[]) => run('kubectl', args, { env: { KUBECONFIG: kubeconfig } })
  const runHelm = (args: string[]) => run(helm, args, { env: { KUBECONFIG: kubeconfig } })
  const api = new ApiClient({ server: proxy.url })
  const [repository = '', tag = ''] = image.split(/:(?=[^:/]+$)/)
  let installed = false
  const close = async () => {
    await api.close()
    // Whatever failed: nothing of ours stays on a cluster that belongs to others.
    if (installed) await runHelm([...UNINSTALL, '--no-hooks'])
    await kubectl(['delete', 'secret', PULL_SECRET, '-n', NAMESPACE, '--ignore-not-found'])
    proxy.process.kill()
    await once(proxy.process, 'exit')
  }
  return {
    api,
    connect: () => {
      throw new NotSupported('another user is shown on the local cluster only')
    },
    helm,
    store: () => storeIn(env),
    parts: [`everything: as it is on the cluster of ${kubeconfig}`, `operator image: ${image}`],
    defineKinds: async () => {
      await kubectl(['apply', '--server-side', '-f', 'chart/crds'])
      await kubectl(['wait', '--for=condition=Established', '--timeout=60s', 'crd', '--all'])
    },
    install: async () => {
      installed = true
      await runHelm([
        ...['upgrade', '--install', RELEASE, 'chart', '--namespace', NAMESPACE],
        ...['--create-namespace', '--skip-crds', '--wait', '--timeout', '300s'],
        ...[
          `image.repository=${repository}`,
          `image.tag=${tag}`,
          // Metacontroller may have been installed as the quickstart does: without permissions.
          'metacontroller.rbac.create=true',
          PULLED,
          ...JOB_VOLUMES,
        ].flatMap((value) => ['--set', value]),
        ...(env['ENGINE_REPOSITORY'] === undefined
          ? []
          : ['--set', `engineChart.repository=${env['ENGINE_REPOSITORY']}`]),
      ])
      await applyObject(api, pullSecret(NAMESPACE))
    },
    helmTest: () => runHelm(HELM_TEST),
    uninstall: async () => {
      await runHelm(UNINSTALL)
      installed = false
    },
    chartRepositoryStatus: () => notHere('a repository that asks for credentials'),
    openChartRegistry: () => notHere('another repository of the engine chart'),
    operatorImage: () => notHere('the size of the image'),
    installPrevious: () => notHere('an upgrade from an earlier chart'),
    upgradeFromPrevious: () => notHere('an upgrade from an earlier chart'),
    upgradeOperator: () => notHere('an upgrade of the operator'),
    rotateToken: () => notHere('another token of the hooks'),
    setReplicas: () => notHere('several replicas of the service'),
    restartControllers: () => notHere('a restart of its controllers'),
    runQuickstart: () => notHere('the quickstart (.ci/kind quickstart runs it on kind)'),
    freezePod: () => notHere('a pod that hangs'),
    prepareFreeze: () => notHere('a pod that hangs'),
    close,
  }
}

/** An S3 store that both the pods of that cluster and this machine reach. */
function storeIn(env: NodeJS.ProcessEnv): StoreAccess {
  const { S3_ENDPOINT, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY, S3_REGION } = env
  if (!S3_ENDPOINT || !S3_ACCESS_KEY_ID || !S3_SECRET_ACCESS_KEY) {
    throw new NotSupported(
      'S3_ENDPOINT, S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY are not set: with KUBECONFIG they name a store that the pods reach too',
    )
  }
  return {
    endpoint: S3_ENDPOINT,
    accessKeyId: S3_ACCESS_KEY_ID,
    secretAccessKey: S3_SECRET_ACCESS_KEY,
    ...(S3_REGION && { region: S3_REGION }),
  }
}

async function notHere(what: string): Promise<never> {
  throw new NotSupported(
    `${what} is supported on the local cluster only: this cluster has other users`,
  )
}

/** kubectl knows every way to log in; through its proxy we need none of them. */
async function startProxy(kubeconfig: string): Promise<{ url: string; process: ChildProcess }> {
  const proxy = spawn('kubectl', ['proxy', '--port=0'], {
    env: { ...process.env, KUBECONFIG: kubeconfig },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  for await (const chunk of proxy.stdout) {
    const address = /127\.0\.0\.1:\d+/.exec(String(chunk))?.[0]
    if (address !== undefined) return { url: `http://${address}`, process: proxy }
  }
  throw new Error('kubectl proxy ended before it served')
}
