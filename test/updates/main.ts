/**
 * `npm run test:updates -- [--from 1.17.1] [--to 1.18.3] [--rounds N] [--only operator|chart]`: one edit of the version of three nodes
 * on the local real cluster, under one writer and one reader that call through the Service; with all replicas, and
 * with one shard whose only replica is on the node that is updated first. The same by the chart alone, in one table.
 * Over several minor versions, which the chart alone does not know to take one after the other, by the operator only.
 */
import { randomInt } from 'node:crypto'
import { existsSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { versionsBetween } from '../../crds/versions.ts'
import { enginePartsOf, useRealParts } from '../real-parts.ts'

const { values } = parseArgs({
  options: {
    from: { type: 'string', default: '1.17.1' },
    to: { type: 'string', default: '1.18.3' },
    rounds: { type: 'string', default: '1' },
    seed: { type: 'string' },
    /** `operator` or `chart`; default: both. */
    only: { type: 'string' },
  },
})
const { from, to } = values
const MAX_PRINTED = 6
const between = versionsBetween(from, to) ?? []

useRealParts(process.env)
const print = (line: string) => process.stdout.write(`${line}\n`)
for (const version of [from, ...between, to]) {
  const { engineBin, chart } = enginePartsOf(version, process.env)
  const missing = [engineBin, chart].some(
    (path) => path === undefined || !path.includes(version) || !existsSync(path),
  )
  if (!missing) continue
  print(
    `engine ${version} and its chart are not in the folder of parts: an update needs each version`,
  )
  process.exit(2)
}
// What the cluster is given is decided when its modules are loaded.
const ENGINE_BETWEEN = between.join()
Object.assign(process.env, { ENGINE_OLDER: from, ENGINE_BETWEEN, ENGINE_NEWER: to })
const { installOperator } = await import('../cluster/install.ts')
const { startLocalCluster } = await import('../cluster/local.ts')
const { recordRun } = await import('../proof/record.ts')
const { runRound } = await import('./round.ts')
const { ChartSubject, OperatorSubject } = await import('./subject.ts')
const { rowOf, HEAD } = await import('./table.ts')

recordRun('updates')
const started = Date.now()
const first = Number(values.seed ?? randomInt(1, 2 ** 31))
const only = between.length > 0 ? 'operator' : values.only
const by = ['operator', 'chart'].filter((who) => who === (only ?? who))
const rows: string[] = []
const total = { updates: 0, failed: 0, compared: 0, operations: 0, refused: 0, refusedTwice: 0 }
const cluster = await startLocalCluster({ log: print, replace: true })
try {
  const { chartRepository } = await installOperator(cluster, { log: print })
  for (let index = 0; index < Number(values.rounds); index += 1) {
    for (const lastReplica of [false, true]) {
      for (const who of by) await show(who, first + index, lastReplica, chartRepository)
    }
  }
} finally {
  await cluster.stop()
}
print(
  `\nEngine ${[from, ...between, to].join(' to ')}, three nodes, two replicas of each shard, seeds from ${first}:\n`,
)
for (const line of [...HEAD, ...rows]) print(line)
const minutes = Math.round((Date.now() - started) / 60_000)
print(
  `\n${total.updates} updates by the operator from ${[from, ...between, to].join(' to ')} in ${minutes} min, ${total.operations} operations, ${total.refused} failed, ${total.refusedTwice} failed when repeated, ${total.compared} points compared, ${total.failed} updates failed`,
)
process.exit(total.failed === 0 ? 0 : 1)

async function show(who: string, seed: number, lastReplica: boolean, repository: string) {
  const namespace = `${who}-${lastReplica ? 'last' : 'whole'}-${seed}`
  const subject =
    who === 'operator'
      ? new OperatorSubject(cluster, namespace)
      : new ChartSubject(cluster, namespace, repository)
  print(`${namespace}: seed ${seed}`)
  const result = await runRound(cluster, subject, { seed, from, between, to, lastReplica })
  rows.push(rowOf(who, lastReplica, result))
  print(rows.at(-1) ?? '')
  for (const finding of result.findings) print(`  ${finding}`)
  for (const failure of result.repeatedFailures.slice(0, MAX_PRINTED))
    print(`  failed twice: ${failure}`)
  if (result.stopped !== undefined) print(`  stopped: ${result.stopped}`)
  if (who !== 'operator') return
  const { reads, writes } = result
  const failedTwice = reads.failedTwice + writes.failedTwice
  total.updates += 1
  total.compared += result.compared
  total.operations += reads.all + writes.all
  total.refused += reads.failed + reads.wrong + writes.failed
  total.refusedTwice += failedTwice
  if (result.findings.length > 0 || failedTwice > 0) total.failed += 1
}
