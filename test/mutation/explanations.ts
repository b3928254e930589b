/** Changes that no test needs to detect, and why: they change no observable behaviour. */

export interface Explained {
  /** Absent: in any file. */
  file?: string
  /** Stryker's name of the kind of change; absent: any. */
  mutator?: string
  /** The original and the replacement, if they distinguish changes. */
  from?: string | RegExp
  to?: string
  /** The line that the change begins on, without its indent; or what it holds. */
  line?: RegExp | string
  why: string
}

const ZERO = 'an absent part counts as nothing, however that is written'
const WHOLE = 'bytes are whole numbers, and one decimal is all that is shown'
const STORED = 'what the API server has stored always has it: the default is for the type only'
const TYPED = 'the type allows for what the rules of admission do not'
const REPORTED = 'a missing value was reported before: this is for the type only'
/** When a Job is started both exist: a missing one would have been reported. */
const SEEN = /^((cluster|leases) === undefined|cluster === undefined \|\| leases === undefined)$/
const REMADE = 'the recreated object exists: the check is for the type only'
const NOT_THERE = '"Stryker was here!"'

export const EXPLAINED: Explained[] = [
  {
    ...{ mutator: 'ConditionalExpression', from: /^[\w.?]+ !== undefined$/, to: 'true' },
    line: /\.\.\.\([\w.?]+ !== undefined && \{/,
    why: 'a field that is undefined is the same as one that is not there: nothing asks which keys there are, and JSON has no undefined',
  },
  {
    ...{ mutator: 'StringLiteral', from: "''", to: NOT_THERE },
    line: /\b(namespace|uid) = ''|(creationTimestamp|lastTransitionTime) \?\? ''/,
    why: STORED,
  },
  {
    ...{ from: 'newest === undefined', to: 'false' },
    why: 'without a newest Job there is no end of it',
  },
  { from: 'newest.status?.failed', why: 'a Job that has ended has a status' },
  {
    line: /^ *largeField: '(metadata\.name|spec\.storage|spec\.source|spec\.replicas)',$/,
    why: 'only spec.config of a cluster can make a plan too large',
  },

  { file: 'crds/contract/connection.ts', from: 'spec.tls.secretRef?.name', why: TYPED },
  { file: 'crds/units.ts', mutator: 'StringLiteral', line: /hours = '0'/, why: ZERO },
  { file: 'crds/units.ts', mutator: 'ArrayDeclaration', line: /hours = '0'/, why: ZERO },
  {
    ...{ file: 'crds/units.ts', line: /digits = '', unit = ''/, to: NOT_THERE },
    why: 'what does not read as an amount is none, whatever stands in its place',
  },
  {
    ...{ file: 'crds/units.ts', mutator: 'ArrayDeclaration', line: /digits = ''/ },
    why: 'what does not read as an amount is none, whatever stands in its place',
  },
  {
    file: 'crds/engine/collections.ts',
    line: /(IndexBody|AliasAction) = |^ +Type\.Object|^ +\w+: Type/,
    why: 'what we send is typed by its schema, and checked by the engine',
  },
  {
    ...{ file: 'crds/engine/collections.ts', line: /first !== undefined|vector\.name \?\? ''/ },
    why: 'there is a vector here, and only the one that stands alone has no name',
  },
  {
    ...{ file: 'crds/engine/mutable-fields.ts', line: /spec\.(v|sparseV)ectors \?\? \[\]/ },
    why: 'what is no vector has no field that is declared',
  },
  {
    ...{
      file: 'hooks/collection/reconcile-indexes.ts',
      from: /^(PLAIN\.test\(path\)|'u')$/,
      line: /PLAIN/,
    },
    why: 'the quick look only spares the steps, which come to the same path',
  },
  {
    ...{ file: 'hooks/collection/reconcile-indexes.ts', to: NOT_THERE, line: /match\.groups/ },
    why: 'each is there where it is read: the default is for the type only',
  },
  { file: 'crds/engine/plain-object.ts', to: NOT_THERE, why: 'no value stands at an empty path' },
  { file: 'crds/restore.ts', line: /`s3:/, mutator: 'OptionalChaining', why: TYPED },
  { file: 'crds/restore.ts', line: /`s3:/, to: NOT_THERE, why: TYPED },
  {
    ...{ file: 'crds/units.ts', mutator: 'StringLiteral', line: /BYTE_UNITS/ },
    why: 'the last unit is always there',
  },
  { file: 'crds/units.ts', mutator: 'EqualityOperator', to: 'amount > 1023.95', why: WHOLE },
  {
    ...{ file: 'crds/units.ts', mutator: 'ConditionalExpression', to: 'false' },
    ...{ line: /1023\.95|unit === 0/, why: WHOLE },
  },
  { file: 'crds/units.ts', mutator: 'Regex', line: /toFixed/, why: WHOLE },

  {
    ...{
      file: 'hooks/access-key/sync.ts',
      from: /^(cluster|signingKey) === undefined$/,
      to: 'false',
    },
    ...{ line: /blocker !== undefined \|\|/, why: REPORTED },
  },
  {
    file: 'hooks/access-key/sync.ts',
    line: /NO_SIGNING_KEY: |phase: 'Pending',|reason: 'SecretNotFound',|there is no key to sign with/,
    why: REPORTED,
  },
  { file: 'hooks/access-key/sync.ts', from: 'cluster.spec.apiKey?.jwtRbac', why: REPORTED },
  {
    ...{ file: 'hooks/access-key/sync.ts', line: /transition/, to: NOT_THERE },
    why: 'an owned Secret has its issue time and its key',
  },
  {
    ...{ file: 'hooks/backup-schedule/tick.ts', mutator: 'EqualityOperator' },
    ...{ to: 'a.metadata.name <= b.metadata.name', why: 'no two backups have one name' },
  },
  {
    ...{ file: 'hooks/backup-schedule/tick.ts', line: /return slot === undefined \? \[\] : / },
    why: 'what stands was made for a slot: this is for the type only',
  },
  {
    ...{ file: 'hooks/backup-schedule/tick.ts', from: 'backup.status?.phase' },
    why: 'what has finished has a status: this is for the type only',
  },
  {
    ...{ file: 'hooks/backup-schedule/tick.ts', from: "'Failed'", line: /const phase = / },
    why: 'what has finished and is not Completed counts as failed by any word',
  },
  {
    ...{ file: 'hooks/backup-schedule/tick.ts', from: 'error instanceof Rejected', to: 'true' },
    why: 'nothing else is thrown there: it would be a defect',
  },
  {
    file: 'hooks/backup-schedule/observe.ts',
    ...{ from: /^(conflictingBackup|lastSlot) === undefined$/, to: 'false' },
    why: 'a field that is undefined is the same as one that is not there',
  },
  { file: 'hooks/backup/job.ts', line: /const secretNames = /, to: NOT_THERE, why: REPORTED },
  {
    ...{ file: 'hooks/backup/observe.ts', from: 'cluster === undefined', to: 'false' },
    why: 'a field that is undefined is the same as one that is not there',
  },
  { file: 'hooks/backup/sync.ts', from: SEEN, why: REPORTED },
  {
    ...{ file: 'hooks/cluster/finalize.ts', mutator: 'ArrayDeclaration', line: /liveJobs = \[\]/ },
    why: 'the end of a cluster is decided with the live list',
  },
  {
    ...{ file: 'hooks/cluster/sync.ts', mutator: 'ArrayDeclaration', line: /liveJobs = \[\]/ },
    why: 'where a run is due the live list was read',
  },
  {
    ...{ file: 'hooks/cluster/sync.ts', from: 'error instanceof Rejected', to: 'true' },
    why: 'nothing else is thrown there: it would be a defect',
  },
  {
    ...{ file: 'hooks/cluster/observe.ts', from: /^[\w.]+ !== undefined$/, to: 'true' },
    why: 'a field that is undefined is the same as one that is not there',
  },
  {
    ...{ file: 'hooks/cluster/observe.ts', from: 'statefulSet?.spec' },
    why: 'what is rolled out has a StatefulSet',
  },
  {
    ...{ file: 'hooks/cluster/shards/observe.ts', from: /^answer\.\w+ !== undefined$/, to: 'true' },
    why: 'a field that is undefined is the same as one that is not there',
  },
  {
    ...{ file: 'hooks/cluster/shards/observe.ts', from: 'statefulSet?.spec' },
    why: 'nodes are asked only if one of them is ready, so the StatefulSet exists',
  },
  {
    ...{ file: 'hooks/cluster/windows.ts', from: '{ cause }' },
    why: 'the cause is only logged',
  },
  {
    ...{ file: 'hooks/cluster/windows.ts', from: 'error instanceof Rejected', to: 'true' },
    why: 'nothing else is thrown there: it would be a defect',
  },
  {
    ...{ file: 'hooks/cluster/shards/next-step.ts', mutator: 'OptionalChaining' },
    line: /progress\?\.(verb|shards)|statefulSet\?\.spec\.replicas|shards\?\.obstruction/,
    why: 'asked only of what was applied, has pods, and was asked for its shards',
  },
  {
    ...{
      file: 'hooks/cluster/shards/next-step.ts',
      line: /summary === undefined \|\| target === undefined/,
    },
    why: 'a plan belongs to a target of a summary: the checks are for the type only',
  },
  {
    ...{
      file: 'hooks/cluster/shards/next-step.ts',
      line: /failure !== 'unknown' && failure\.plan/,
    },
    why: 'a failure that is not known yet has no plan: the check is for the type only',
  },
  {
    ...{ file: 'hooks/cluster/shards/job.ts', from: 'statefulSet?.spec' },
    why: 'a Job is due only for a StatefulSet',
  },
  {
    ...{ file: 'hooks/cluster/shards/job.ts', from: "'shards'", line: /hash: shortHash/ },
    why: 'it only keeps this hash apart from those of helm runs',
  },
  {
    ...{ file: 'hooks/cluster/shards/job.ts', from: 'zone === undefined', to: 'false' },
    why: 'a field that is undefined is the same as one that is not there',
  },
  {
    ...{ file: 'hooks/cluster/shards/sync.ts', mutator: 'ArrayDeclaration' },
    line: /liveJobs = \[\]/,
    why: 'where work is due the live list was read',
  },
  {
    ...{ file: 'hooks/cluster/shards/sync.ts', from: 'leases === undefined', to: 'false' },
    why: 'where work is due the Leases were read: this is for the type only',
  },
  {
    ...{ file: 'hooks/cluster/shards/sync.ts', mutator: 'OptionalChaining' },
    line: /progress\?\.run|statefulSet\?\.spec\.replicas/,
    why: 'work on shards is due only for what was applied and has pods',
  },
  {
    ...{ file: 'hooks/cluster/shards/observe.ts', from: 'progress?.shards' },
    why: 'nodes are asked only for what was applied',
  },
  {
    ...{ file: 'hooks/cluster/shards/status.ts', from: 'progress?.shards' },
    why: 'a Job that has reported has a report: the check is for the type only',
  },
  {
    ...{ file: 'hooks/cluster/shards/status.ts', from: 'purpose !== undefined', to: 'true' },
    why: 'the word undefined is no purpose either: the check is for the type only',
  },
  {
    ...{ file: 'hooks/cluster/shards/status.ts', from: "plans.repair.is === 'waiting'" },
    why: 'a step never has this purpose: the check is for the type only',
  },
  {
    ...{ file: 'hooks/cluster/validation.ts', from: "''", line: /storage \?\? ''/ },
    why: 'what is no amount is another than any',
  },
  {
    ...{ file: 'hooks/cluster/job.ts', to: NOT_THERE, line: /secretRef\?\.name \?\? ''/ },
    why: 'no Secret is known by either name',
  },
  {
    ...{ file: 'hooks/cluster/job.ts', to: NOT_THERE, line: /acceptRisk/ },
    why: 'neither is the name of a risk',
  },
  {
    ...{ file: 'hooks/cluster/job.ts', from: "'uninstall'" },
    why: 'it only keeps this hash apart from those of upgrades',
  },
  {
    ...{ file: 'hooks/cluster/validation.ts', mutator: 'BlockStatement', line: /\} catch \{/ },
    why: 'undefined is as little a yes',
  },
  {
    ...{ file: 'hooks/cluster/status.ts', from: /^progress\?\.applied/ },
    line: /applied\.run !== |statefulSetGeneration|const run = /,
    why: 'asked only of what was applied',
  },
  {
    ...{ file: 'hooks/collection/engine-cache.ts', mutator: 'StringLiteral', to: '""' },
    line: /#cachedCall\('(readyz|version)'/,
    why: 'it only keeps this answer apart from the others',
  },
  {
    ...{ file: 'hooks/collection/engine-cache.ts', from: 'position < 0', to: 'position <= 0' },
    why: 'who is the first in line is out of it by handing itself the turn',
  },
  {
    ...{ file: 'hooks/collection/sync.ts', mutator: 'ArrayDeclaration' },
    line: /\{ conditions = \[\] \}: CollectionStatus/,
    why: 'a status that was just made has its conditions',
  },
  {
    ...{ file: 'hooks/collection/reconcile.ts', mutator: 'ArrayDeclaration' },
    ...{ line: /managed: collection\.status\?\.aliases \?\? \[\]/ },
    why: 'what points nowhere is not released',
  },
  {
    ...{ file: 'hooks/collection/reconcile-indexes.ts', mutator: 'ArrayDeclaration' },
    ...{ line: /managed: context\.collection\.status\?\.payloadIndexes \?\? \[\]/ },
    why: 'what is not there is not removed',
  },
  {
    ...{ file: 'hooks/collection/reconcile-indexes.ts', from: 'updated === info', to: 'false' },
    why: 'of the same collection the plan is the same',
  },
  {
    ...{ file: 'hooks/collection/reconcile-indexes.ts', from: 'live === undefined', to: 'false' },
    ...{ line: /\? \[\] : indexDifferences\(/, why: REMADE },
  },
  {
    ...{ file: 'hooks/collection/reconcile-indexes.ts', mutator: 'ArrayDeclaration' },
    ...{ line: /\? \[\] : indexDifferences\(/, why: REMADE },
  },
  {
    ...{ file: 'hooks/collection/ownership.ts', to: 'a.metadata.uid <= b.metadata.uid' },
    why: 'no two resources have one uid',
  },
  {
    ...{ file: 'hooks/collection/reconcile-config.ts', to: NOT_THERE },
    line: /\{ name = '' \}|vector\.name \?\? ''/,
    why: 'only the single vector has no name, and it is never requested by name',
  },
  {
    ...{ file: 'hooks/collection/observe.ts', to: "ready?.status !== 'True'" },
    why: 'all that is asked of it is whether it changed',
  },
  {
    ...{ file: 'hooks/conditions.ts', mutator: 'Regex' },
    why: 'an instant ends with its milliseconds',
  },
  {
    ...{ file: 'hooks/answer-validation.ts', mutator: 'ConditionalExpression', to: 'false' },
    why: 'the quick check of a status only spares the search for words',
  },
  {
    ...{ file: 'hooks/answer-validation.ts', mutator: 'ArrayDeclaration' },
    why: 'other pruned objects have no name, and no child has that name',
  },
  {
    ...{ file: 'hooks/job.ts', mutator: 'ArrayDeclaration', line: /pruned = \[\]/ },
    why: 'other pruned objects have no name, and no child has that name',
  },
  {
    ...{ file: 'hooks/lease.ts', to: NOT_THERE, line: /acquireTime \?\? ''/ },
    why: 'neither is an instant',
  },
  {
    ...{ file: 'hooks/migration/endpoints.ts', from: 'secret === undefined', to: 'false' },
    why: 'what the Job is given has its Secret: this is for the type only',
  },
  {
    ...{ file: 'hooks/migration/observe.ts', from: 'clusters.target === undefined', to: 'false' },
    why: 'that the target is missing is seen on the next line: this is for the type only',
  },
  { file: 'hooks/migration/endpoints.ts', line: /endpoint\?\.url \?\? ''/, why: TYPED },
  { file: 'hooks/migration/sync.ts', from: 'desired === undefined', to: 'false', why: REPORTED },
  {
    ...{ file: 'hooks/migration/sync.ts', line: /writers = \[\]/ },
    why: 'where nothing is missing the Leases were read',
  },
  {
    ...{ file: 'hooks/background-task.ts', from: 'clearTimeout(timer)' },
    why: 'a timer without a waiter does nothing',
  },
  {
    ...{
      file: 'hooks/restore/job.ts',
      to: NOT_THERE,
      line: /^ +(engine|tls): plan\.cluster\./,
    },
    why: 'asked only of a credential whose Secret was found',
  },
  {
    ...{ file: 'hooks/restore/observe.ts', mutator: 'ArrayDeclaration', line: /\? \[\]/ },
    why: 'the added object has no name, and no credential of that name is required',
  },
  {
    ...{
      file: 'hooks/restore/sync.ts',
      mutator: 'ArrayDeclaration',
      line: /conflictingWork = \[\]/,
    },
    why: 'where nothing is missing the others were read',
  },
  { file: 'hooks/restore/sync.ts', line: /const isRead = /, why: REPORTED },

  {
    ...{ file: 'jobs/backup/create-snapshot.ts', mutator: 'BooleanLiteral' },
    line: "signal.addEventListener('abort', abort, { once: true })",
    why: 'a signal aborts once',
  },
  {
    ...{ file: 'jobs/backup/source-cluster.ts', mutator: 'StringLiteral' },
    line: "if (versions.size === 1) return [...versions].join('')",
    why: 'the only element is not joined to another one',
  },
  {
    ...{ file: 'jobs/backup/shards/collection.ts', mutator: 'ObjectLiteral' },
    line: 'const fields = { collection, parallelism: maxStreams, streams, memory }',
    why: 'only logged',
  },
  {
    ...{ file: 'jobs/restore/deliver-snapshot.ts', to: '""' },
    line: "deliveryModes.set(node, 'upload')",
    why: 'every mode but fetch uploads',
  },
  {
    ...{ file: 'jobs/restore/point-count.ts', mutator: 'BooleanLiteral' },
    line: 'if (isResolved) return { isBeingWritten: false }',
    why: 'asked only where a loss is left',
  },
]
