/** Defects that once passed all tests, planted again by `npm run test:defects`: each must fail the test named. */

export interface Defect {
  title: string
  file: string
  /** Stands in the file exactly once. */
  original: string
  replacement: string
  /** The test file that is to fail. */
  test: string
}

export const DEFECTS: readonly Defect[] = [
  {
    title: 'a purge reports done although the store refused to delete some objects',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'if (failed !== undefined) throw this.#deletionError(failed, first)',
    replacement: 'if (failed === null) throw this.#deletionError(failed, first)',
    test: 'test/jobs/clients/s3/bucket.test.ts',
  },
  {
    title: 'a purge of any listing reports done although the store refused to delete some objects',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'if (failed !== undefined) throw this.#deletionError(failed, first)',
    replacement: 'if (failed === null) throw this.#deletionError(failed, first)',
    test: 'test/fuzz/listings.test.ts',
  },
  {
    title: 'only the first page of unfinished uploads is looked at',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'if (next === undefined) return uploads\n      this.#requireProgress(prefix, JSON',
    replacement: 'if (next !== null) return uploads\n      this.#requireProgress(prefix, JSON',
    test: 'test/jobs/clients/s3/bucket.test.ts',
  },
  {
    title: 'a store that knows no conditions gets no owner.json',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'if (onlyNew && error.status === 501)',
    replacement: 'if (onlyNew && error.status === 599)',
    test: 'test/jobs/clients/s3/bucket.test.ts',
  },
  {
    title: 'two that write at once, of which the store refuses one: the refusal is an error',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'return status === 412 || WRITE_CONFLICTS.has(reason)',
    replacement: 'return status === 412',
    test: 'test/jobs/clients/s3/bucket.test.ts',
  },
  {
    title: 'the size of what was uploaded is not compared with what the store has',
    file: 'jobs/clients/s3/bucket.ts',
    original: 'if (size === bytes) return bytes',
    replacement: 'if (size !== null) return bytes',
    test: 'test/jobs/clients/s3/upload.test.ts',
  },
  {
    title: 'the comparison of a migration reads no vectors',
    file: 'jobs/clients/engine/points.ts',
    original:
      'ids: ids.map(rawJson),\n      with_payload: idsOnly !== true,\n      with_vector: idsOnly !== true',
    replacement:
      'ids: ids.map(rawJson),\n      with_payload: idsOnly !== true,\n      with_vector: false',
    test: 'test/jobs/migration/verify.test.ts',
  },
  {
    title: 'SIGTERM ends the service at once',
    file: 'metacontroller/serve.ts',
    original: 'process.once(signal, () => void stop(service, log, signal))',
    replacement: 'process.once(signal, () => process.exit(0))',
    test: 'test/metacontroller/serve.test.ts',
  },
  {
    title: 'pods are asked by a name that no Service gives them',
    file: 'crds/contract/names.ts',
    original: '-headless.${namespace}',
    replacement: '-headles.${namespace}',
    test: 'test/crds/contract/names.test.ts',
  },
  {
    title: 'a migration holds any number of bytes in memory',
    file: 'jobs/migration/page-reader.ts',
    original: 'MAX_BUFFERED_BYTES = 40 * 1024 * 1024',
    replacement: 'MAX_BUFFERED_BYTES = 4096 * 1024 * 1024',
    test: 'test/jobs/migration/byte-budget.test.ts',
  },
  {
    title: 'a restore does not wait until a node has recovered what was sent',
    file: 'jobs/clients/engine/recovery.ts',
    original: "new URLSearchParams({ wait: 'true', priority })",
    replacement: "new URLSearchParams({ wait: 'false', priority })",
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'a restore of a whole node does not wait until the node has recovered',
    file: 'jobs/clients/engine/recovery.ts',
    original: 'snapshots/recover?wait=true`',
    replacement: 'snapshots/recover?wait=false`',
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'idle connections are kept longer than the engine keeps them',
    file: 'jobs/clients/engine/transport.ts',
    original: 'KEEP_ALIVE_MS = 4_000',
    replacement: 'KEEP_ALIVE_MS = 400_000',
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'a download may be compressed on the way, and its hash is of other bytes',
    file: 'jobs/clients/engine/client.ts',
    original: "'accept-encoding': 'identity',",
    replacement: "'accept-encoding': 'gzip',",
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'changes of a cluster are given no time-out of the engine',
    file: 'jobs/clients/engine/recovery.ts',
    original: '/cluster?timeout=${CREATE_TIMEOUT_SECONDS}`',
    replacement: '/cluster`',
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'calls that need an agreement of the nodes end before the engine gives up',
    file: 'jobs/clients/engine/recovery.ts',
    original: 'CONSENSUS_CALL_MS = (CREATE_TIMEOUT_SECONDS + 5) * 1000',
    replacement: 'CONSENSUS_CALL_MS = (CREATE_TIMEOUT_SECONDS - 30) * 1000',
    test: 'test/jobs/clients/engine/wire.test.ts',
  },
  {
    title: 'a copy that a node does not call Active is backed up',
    file: 'jobs/backup/topology.ts',
    original: "if (state !== 'Active') return",
    replacement: "if (state === 'Dead') return",
    test: 'test/jobs/backup/topology.test.ts',
  },
  {
    title: 'a copy that stopped being Active while its snapshot was made counts',
    file: 'jobs/backup/nodes/node-snapshot.ts',
    original: 'await requireUnchanged(`snapshot ',
    replacement: 'void (`snapshot ',
    test: 'test/jobs/backup/topology.test.ts',
  },
  {
    title: 'the collections to back up are those of one node, whatever the others list',
    file: 'jobs/cluster-consistency.ts',
    original: 'if (others.every((names) => sameNames(names, first ?? []))) return undefined',
    replacement: 'if (others !== null) return undefined',
    test: 'test/jobs/cluster-consistency.test.ts',
  },
  {
    title: 'a checkpoint that was written by others decides what is deleted on a node',
    file: 'jobs/backup/nodes/checkpoint.ts',
    original: 'found.uid === context.plan.uid &&\n    hasValidSeal(key, found, context)',
    replacement: 'found.uid === context.plan.uid &&\n    hasValidSeal !== null',
    test: 'test/jobs/backup/nodes/create-snapshot.test.ts',
  },
  {
    title: 'a purge deletes folders inside its own that have another owner',
    file: 'jobs/backup/folder.ts',
    original: 'return inner.size === 0 || !enclosingFolders',
    replacement: 'return inner.size >= 0 || !enclosingFolders',
    test: 'test/jobs/backup/purge.test.ts',
  },
  {
    title: 'after a lost answer a restore does not wait until the node is idle',
    file: 'jobs/restore/retry-recovery.ts',
    original: 'if (wasRunning || now() - idleSince >= idleMs) return true',
    replacement: 'return true',
    test: 'test/jobs/restore/lost-clients.test.ts',
  },
  {
    title: 'a running recovery is not waited for',
    file: 'jobs/restore/retry-recovery.ts',
    original: 'if (running > 0) {\n      wasRunning = true',
    replacement: 'if (running > 1000) {\n      wasRunning = true',
    test: 'test/jobs/restore/lost-clients.test.ts',
  },
  {
    title: 'a namespace that is deleted empties the bucket',
    file: 'hooks/backup/deletion-policy.ts',
    original: "if (isNamespaceTerminating && !policies.includes('Delete'))",
    replacement: "if (isNamespaceTerminating && policies.includes('Delete'))",
    test: 'test/hooks/backup/deletion-policy.test.ts',
  },
  {
    title:
      'a node fetches the snapshot of a shard, and may still do so after the restore has ended',
    file: 'jobs/restore/deliver-snapshot.ts',
    original: 'if (target.shard !== undefined) {\n    await uploadSnapshot',
    replacement: 'if (target.shard === -1) {\n    await uploadSnapshot',
    test: 'test/jobs/restore/shards.test.ts',
  },
  {
    title: 'a recovery by URL is repeated although the outcome of the former one is unknown',
    file: 'jobs/restore/retry-recovery.ts',
    original: 'outcome.isCompleted = await hasCompleted(attempt, context)',
    replacement: 'outcome.isCompleted = hasCompleted === undefined',
    test: 'test/jobs/restore/lost-clients.test.ts',
  },
  {
    title: 'the comparison of a migration compares ids only',
    file: 'jobs/migration/compare-points.ts',
    original: 'if (b === undefined) return false\n  if (a.equals(b)) return true',
    replacement: 'if (b === undefined) return false\n  if (a.length > 0) return true',
    test: 'test/jobs/migration/verify.test.ts',
  },
  {
    title: 'VecCluster: a Secret that exists by now is still reported as missing',
    file: 'hooks/cluster/helm-result.ts',
    original: 'if (CHECKED_REASONS.has(applied.reason)) return undefined',
    replacement: "if (applied.reason === '') return undefined",
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecCollection: deletionPolicy Retain deletes the collection',
    file: 'hooks/collection/finalize.ts',
    original:
      "  if (collection.spec.deletionPolicy === 'Retain') return undefined\n  const cluster",
    replacement: '  const cluster',
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecAccessKey: a token is issued although the cluster accepts none',
    file: 'hooks/access-key/sync.ts',
    original: 'cluster.spec.apiKey?.jwtRbac !== true',
    replacement: 'cluster.spec.apiKey?.jwtRbac === null',
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecBackupSchedule: Forbid creates a backup while another is active',
    file: 'hooks/backup-schedule/tick.ts',
    original: "    case 'Forbid': {\n",
    replacement:
      "    case 'Forbid': {\n      if (slot !== undefined) return { create: slot, ready: scheduledFinding() }\n",
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecRestore: the Job starts before the backup is Completed',
    file: 'hooks/restore/sync.ts',
    original: "if (phase === 'Completed') return undefined\n  const message",
    replacement: "if (phase !== 'Failed') return undefined\n  const message",
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecBackup: a failed backup has the reason of a completed one',
    file: 'hooks/backup/status.ts',
    original: "phase === 'Completed' ? 'BackupCompleted'",
    replacement: "phase !== 'Pending' ? 'BackupCompleted'",
    test: 'test/fuzz/decisions.test.ts',
  },
  {
    title: 'VecMigration: the Job starts whatever is missing',
    file: 'hooks/migration/sync.ts',
    original: 'blocker: firstBlocker(observed, settings),',
    replacement: 'blocker: undefined,',
    test: 'test/fuzz/decisions.test.ts',
  },
]
