/** What the updates of one run cost their clients, a row each. */
import { quantile } from '../hard/quantile.ts'
import type { Result } from './round.ts'

export const HEAD = [
  '| Updated by | Replicas | Time | Reads, failed, again | Writes, failed, again | p99 of reads | p99 of writes | Findings |',
  '| --- | --- | --- | --- | --- | --- | --- | --- |',
]

export function rowOf(who: string, lastReplica: boolean, result: Result): string {
  const { reads, writes, seconds, findings } = result
  const cells = [
    who === 'operator' ? 'the operator' : 'the chart alone',
    lastReplica ? 'one shard has one' : 'two of each shard',
    `${seconds} s`,
    `${reads.all}, ${reads.failed + reads.wrong}, ${reads.failedTwice}`,
    `${writes.all}, ${writes.failed}, ${writes.failedTwice}`,
    ratio(result.readLatencies),
    ratio(result.writeLatencies),
    String(findings.length),
  ]
  return `| ${cells.join(' | ')} |`
}

/** How much longer the slowest hundredth took than before the update. */
function ratio({ atRest, during }: { atRest: number[]; during: number[] }): string {
  if (atRest.length === 0 || during.length === 0) return 'not measured'
  return `${(quantile(during, 0.99) / Math.max(quantile(atRest, 0.99), 0.1)).toFixed(1)} times`
}
