/**
 * `npm run cluster -- up|down|status`: the local real cluster for interactive use. `up` leaves it running
 * and prints how to reach it; `up --install` puts the operator on it as well.
 */
import { cleanUp } from './cleanup.ts'
import { installOperator } from './install.ts'
import { openLocalCluster, startLocalCluster } from './local.ts'
import type { LocalCluster } from './local.ts'
import { nodeReady } from './node.ts'
import { alive } from './process.ts'
import { CLUSTER_DIRECTORY, Ground } from './state.ts'

const USAGE = 'usage: npm run cluster -- up [--install] [--audit] | down | status'

async function main(args: readonly string[]): Promise<number> {
  const [command, ...flags] = args
  const unknown = flags.filter((flag) => command !== 'up' || !/^--(install|audit)$/.test(flag))
  if (unknown.length > 0) return complain(`unknown: ${unknown.join(' ')}\n${USAGE}`)
  if (command === 'up') return up(flags.includes('--install'), flags.includes('--audit'))
  if (command === 'down') return down()
  if (command === 'status') return status()
  return complain(USAGE)
}

async function up(install: boolean, audit: boolean): Promise<number> {
  const started = Date.now()
  const log = (line: string) => console.log(`${seconds(started)} ${line}`)
  const cluster = await startLocalCluster({ detached: true, log, ...(audit && { audit: 'all' }) })
  if (install) await installOperator(cluster, { log })
  log('up')
  printAccess(cluster)
  return 0
}

async function down(): Promise<number> {
  const ground = Ground.open(CLUSTER_DIRECTORY)
  if (ground === undefined) {
    console.log('no cluster is up')
    return 0
  }
  if (ground.state.owner !== undefined && alive(ground.state.owner)) {
    return complain(`the cluster belongs to process ${ground.state.owner.pid}, which still runs`)
  }
  const started = Date.now()
  await cleanUp(ground)
  console.log(`${seconds(started)} down`)
  return 0
}

async function status(): Promise<number> {
  const ground = Ground.open(CLUSTER_DIRECTORY)
  if (ground === undefined) {
    console.log('no cluster is up')
    return 1
  }
  for (const record of ground.state.processes) {
    const state = alive(record) ? 'alive' : 'DEAD '
    console.log(
      `${state} ${String(record.pid).padStart(7)} ${record.name.padEnd(24)} ${record.log}`,
    )
  }
  const cluster = await openLocalCluster(console.log)
  if (cluster === undefined) return complain('it never came up')
  const ready = await nodeReady(ground, cluster.tools).catch(() => false)
  console.log(ready ? 'the node is Ready' : 'the node is NOT Ready')
  printAccess(cluster)
  return ready && ground.state.processes.every(alive) ? 0 : 1
}

function printAccess({ kubeconfig, tools, s3 }: LocalCluster): void {
  console.log(`
export KUBECONFIG=${kubeconfig}
alias kubectl=${tools.kubectl}
alias helm=${tools.helm}

S3 ${s3.endpoint}
export AWS_ACCESS_KEY_ID=${s3.accessKeyId}
export AWS_SECRET_ACCESS_KEY=${s3.secretAccessKey}`)
}

function complain(message: string): number {
  console.error(message)
  return 1
}

function seconds(since: number): string {
  return `${((Date.now() - since) / 1000).toFixed(1).padStart(6)} s`
}

main(process.argv.slice(2)).then(
  (code) => {
    process.exitCode = code
  },
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  },
)
