/**
 * Metacontroller for the local cluster: the real program as a process of the host where
 * METACONTROLLER_BIN names one, else whatever loop the caller brings in its place.
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { compositeControllerCrd } from '../world/composite-controllers.ts'
import type { LocalCluster } from './local.ts'

const DEFINITIONS = 'manifests/production/metacontroller-crds-v1.yaml'

/** Ends what was started. */
export type StopLoop = () => Promise<void>

/** Starts our own loop against the API server, where there is no real Metacontroller. */
export type StartLoop = (cluster: LocalCluster) => Promise<StopLoop>

export interface RealMetacontroller {
  readonly bin: string
  /** Manifest of its own resource definitions. */
  readonly crds: string
}

/** The real one that the environment names; undefined where it names none. */
export function realMetacontroller(env: NodeJS.ProcessEnv): RealMetacontroller | undefined {
  const bin = env['METACONTROLLER_BIN']
  if (bin === undefined || bin === '') return undefined
  const beside = join(dirname(bin), 'metacontroller-crds-v1.yaml')
  const ofSources = join(dirname(bin), '..', 'src', 'metacontroller', DEFINITIONS)
  const crds = env['METACONTROLLER_CRDS'] ?? (existsSync(beside) ? beside : ofSources)
  for (const file of [bin, crds]) {
    if (!existsSync(file))
      throw new Error(`${file} does not exist (METACONTROLLER_BIN, METACONTROLLER_CRDS)`)
  }
  return { bin, crds }
}

/**
 * Installs the CRD of CompositeControllers, which the operator's chart contains whichever program
 * reconciles them. Our loop needs only the storage.
 */
export async function installDefinitions(cluster: LocalCluster, real?: RealMetacontroller) {
  const composites = compositeControllerCrd()
  const input = JSON.stringify(composites)
  if (real === undefined) await cluster.kubectl(['apply', '--server-side', '-f', '-'], { input })
  else await cluster.kubectl(['apply', '--server-side', '-f', real.crds])
  const definition = `crd/${composites.metadata.name}`
  await cluster.kubectl(['wait', '--for=condition=Established', '--timeout=60s', definition])
}

/** Our loop as a process of the host: it sees Services by name, as the real one does. */
export const startOwnLoop: StartLoop = async (cluster) => {
  const program = join(import.meta.dirname, 'loop.ts')
  cluster.startHostProcess({
    name: 'loop',
    command: process.execPath,
    args: [program, cluster.kubeconfig],
  })
  return () => cluster.stopHostProcess('loop')
}

/** Name of its namespace and of its account: the chart's default. */
const METACONTROLLER = 'metacontroller'

/** With no other rights than the chart gives it (metacontroller.rbac.create). */
export async function startMetacontroller(
  cluster: LocalCluster,
  real: RealMetacontroller,
): Promise<StopLoop> {
  const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: ACCOUNT })
  await cluster.kubectl(['apply', '-f', '-'], { input })
  const kubeconfig = await cluster.kubeconfigOf(METACONTROLLER, METACONTROLLER)
  cluster.startHostProcess({
    name: 'metacontroller',
    command: '/bin/sh',
    args: [
      ...['-c', RESTARTED, 'metacontroller', real.bin],
      `--kubeconfig=${kubeconfig}`,
      // A new CompositeController is to start soon after its CRD.
      '--discovery-interval=1s',
      '--client-go-qps=100',
      '--client-go-burst=200',
      '--metrics-address=0',
      '--health-probe-bind-address=0',
    ],
  })
  return () => cluster.stopHostProcess('metacontroller')
}

/**
 * As the kubelet restarts it. A change of a CompositeController during a sync can crash it:
 * docs/metacontroller-notes.md, "Crashes".
 */
const RESTARTED = `
trap 'kill "$child"; wait "$child"; exit' TERM INT
while :; do
  "$@" &
  child=$!
  wait "$child"
  echo "metacontroller ended with code $?; starting it again"
  sleep 1
done`

const ACCOUNT = [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: METACONTROLLER } },
  {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    metadata: { name: METACONTROLLER, namespace: METACONTROLLER },
  },
]
