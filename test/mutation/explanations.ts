/**
 * Changes that no test needs to detect, and why: they change no observable behaviour. Each is for one line of one
 * file, and expires with it (explained.ts).
 */

export interface Explained {
  /** The line that the changes begin on, without its indent. */
  line: string
  /** How often the file has this line; default 1. */
  times?: number
  /** Of equal lines, the one that is meant; default: all of them. */
  nth?: number
  /** As `npm run test:mutation` prints them. */
  changes: readonly string[]
  why: string
}

const UNDEFINED =
  'a field that is undefined is the same as one that is not there: nothing asks which keys there are, and JSON has no undefined'
const STORED = 'what the API server has stored always has it: the default is for the type only'
const REPORTED = 'a missing value was reported before: this is for the type only'
const TYPED_BODY = 'what we send is typed by its schema, and checked by the engine'
const SMALL_PLAN = 'only spec.config of a cluster can make a plan too large'
const APPLIED = 'asked only of what was applied, has pods, and was asked for its shards'
const ONLY_REJECTED = 'nothing else is thrown there: it would be a defect'
const HAS_REPORTED = 'a Job that has reported has a report: the check is for the type only'
const NO_NAME = 'the added object has no name, and no credential of that name is required'
const TYPED = 'the type allows for what the rules of admission do not'

const WITH_KEY = 'keys are read only for a cluster with spec.apiKey'
const NO_KEY = 'no key has this name'

export const EXPLAINED: Readonly<Record<string, readonly Explained[]>> = {
  'hooks/cluster/keys/rotation.ts': [
    {
      line: 'const source = cluster.spec.apiKey?.secretRef',
      times: 2,
      changes: [
        'OptionalChaining: cluster.spec.apiKey?.secretRef -> cluster.spec.apiKey.secretRef',
      ],
      why: WITH_KEY,
    },
    {
      line: 'return progress?.applied?.keys?.accepted ?? []',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: NO_KEY,
    },
    {
      line: 'return named.includes(published) ? named : []',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: NO_KEY,
    },
    {
      line: 'return version === undefined || hasSecondKey(version) ? undefined : version',
      changes: ['ConditionalExpression: version === undefined -> false'],
      why: 'the result is undefined in both cases: this is for the type only',
    },
    {
      line: 'const former = other !== undefined && wasPublished(observed, other, published) ? other : undefined',
      changes: ['ConditionalExpression: other !== undefined -> true'],
      why: 'the result is undefined in both cases: this is for the type only',
    },
    {
      line: 'if (other === undefined || (former === undefined && other !== desired)) {',
      changes: ['ConditionalExpression: other === undefined -> false'],
      why: 'without another key there is no former one, and the desired key is known: this is for the type only',
    },
    {
      line: 'const isSame = accepted.length === 2 && present.join() === accepted.join()',
      changes: ['ConditionalExpression: accepted.length === 2 -> true'],
      why: 'the template names two keys or none',
    },
  ],
  'crds/engine/collections.ts': [
    {
      line: 'update_queue: Type.Optional(Type.Union([UpdateQueue, Type.Null()])),',
      changes: ['ArrayDeclaration: [UpdateQueue, Type.Null()] -> []'],
      why: TYPED_BODY,
    },
    {
      line: 'export const IndexBody = Type.Object({',
      changes: ['ObjectLiteral: { -> {}'],
      why: TYPED_BODY,
    },
    {
      line: 'field_schema: Type.Union([Type.String(), Type.Record(Type.String(), Type.Unknown())]),',
      changes: [
        'ArrayDeclaration: [Type.String(), Type.Record(Type.String(), Type.Unknown())] -> []',
      ],
      why: TYPED_BODY,
    },
    {
      line: 'export const AliasAction = Type.Union([',
      changes: ['ArrayDeclaration: [ -> []'],
      why: TYPED_BODY,
    },
    {
      line: 'Type.Object({',
      changes: ['ObjectLiteral: { -> {}'],
      why: TYPED_BODY,
    },
    {
      line: 'create_alias: Type.Object({ collection_name: Type.String(), alias_name: Type.String() }),',
      changes: [
        'ObjectLiteral: { collection_name: Type.String(), alias_name: Type.String() } -> {}',
      ],
      why: TYPED_BODY,
    },
    {
      line: 'Type.Object({ delete_alias: Type.Object({ alias_name: Type.String() }) }),',
      changes: [
        'ObjectLiteral: { delete_alias: Type.Object({ alias_name: Type.String() }) } -> {}',
        'ObjectLiteral: { alias_name: Type.String() } -> {}',
      ],
      why: TYPED_BODY,
    },
    {
      line: 'if (first !== undefined && first.name === undefined) return denseVector(first, engineVersion)',
      changes: ['ConditionalExpression: first !== undefined -> true'],
      why: 'there is a vector here, and only the one that stands alone has no name',
    },
    {
      line: "vectors.map((vector) => [vector.name ?? '', denseVector(vector, engineVersion)]),",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'there is a vector here, and only the one that stands alone has no name',
    },
  ],
  'crds/engine/mutable-fields.ts': [
    {
      line: '...(spec.vectors ?? []).flatMap(denseFields),',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'what is no vector has no field that is declared',
    },
    {
      line: '...(spec.sparseVectors ?? []).flatMap(sparseFields),',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'what is no vector has no field that is declared',
    },
  ],
  'crds/engine/plain-object.ts': [
    {
      line: "defineField(parent, path.at(-1) ?? '', value)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'no value stands at an empty path',
    },
  ],
  'crds/restore.ts': [
    {
      line: "return `s3://${source?.s3.bucket ?? ''}/${path}`",
      changes: [
        'OptionalChaining: source?.s3 -> source.s3',
        'StringLiteral: \'\' -> "Stryker was here!"',
      ],
      why: TYPED,
    },
  ],
  'crds/units.ts': [
    {
      line: "const [, hours = '0', minutes = '0', seconds = '0'] = match ?? []",
      changes: [
        'StringLiteral: \'0\' -> ""',
        'StringLiteral: \'0\' #2 -> ""',
        'StringLiteral: \'0\' #3 -> ""',
        'ArrayDeclaration: [] -> ["Stryker was here"]',
      ],
      why: 'an absent part counts as nothing, however that is written',
    },
    {
      line: "const [, whole = '', fraction = '', unit = ''] =",
      changes: ['StringLiteral: \'\' #3 -> "Stryker was here!"'],
      why: 'it is absent only of a text that is no amount, whatever its unit',
    },
    {
      line: '/^([0-9]*)(?:\\.([0-9]*))?([a-zA-Z]*)$/.exec(quantity) ?? []',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'what does not read as an amount is none, whatever stands in its place',
    },
    {
      line: 'while (amount >= 1023.95 && unit < BYTE_UNITS.length - 1) {',
      changes: ['EqualityOperator: amount >= 1023.95 -> amount > 1023.95'],
      why: 'bytes are whole numbers, and one decimal is all that is shown',
    },
    {
      line: "const text = unit === 0 ? String(Math.round(amount)) : amount.toFixed(1).replace(/\\.0$/, '')",
      changes: ['ConditionalExpression: unit === 0 -> false', 'Regex: /\\.0$/ -> /\\.0/'],
      why: 'bytes are whole numbers, and one decimal is all that is shown',
    },
    {
      line: "return `${text} ${BYTE_UNITS[unit] ?? 'B'}`",
      changes: ['StringLiteral: \'B\' -> ""'],
      why: 'the last unit is always there',
    },
  ],
  'hooks/access-key/observe.ts': [
    {
      line: '...(cluster !== undefined && { cluster }),',
      changes: ['ConditionalExpression: cluster !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/access-key/secret.ts': [
    {
      line: '...(issuedAt !== undefined && { issuedAt }),',
      changes: ['ConditionalExpression: issuedAt !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(expiresAt !== undefined && { expiresAt }),',
      changes: ['ConditionalExpression: expiresAt !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(renewAt !== undefined && { renewAt }),',
      changes: ['ConditionalExpression: renewAt !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(fingerprint !== undefined && { keyFingerprint: fingerprint }),',
      changes: ['ConditionalExpression: fingerprint !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/access-key/sync.ts': [
    {
      line: 'if (blocker !== undefined || cluster === undefined || signingKey === undefined) {',
      changes: [
        'ConditionalExpression: cluster === undefined -> false',
        'ConditionalExpression: signingKey === undefined -> false',
      ],
      why: REPORTED,
    },
    {
      line: 'const NO_SIGNING_KEY: Blocker = {',
      changes: ['ObjectLiteral: { -> {}'],
      why: REPORTED,
    },
    {
      line: "phase: 'Pending',",
      times: 2,
      nth: 1,
      changes: ['StringLiteral: \'Pending\' -> ""'],
      why: REPORTED,
    },
    {
      line: "reason: 'SecretNotFound',",
      changes: ['StringLiteral: \'SecretNotFound\' -> ""'],
      why: REPORTED,
    },
    {
      line: 'if (cluster.spec.apiKey?.jwtRbac !== true) {',
      changes: ['OptionalChaining: cluster.spec.apiKey?.jwtRbac -> cluster.spec.apiKey.jwtRbac'],
      why: REPORTED,
    },
  ],
  'hooks/access-key/token.ts': [
    {
      line: '...(spec.subject !== undefined && { sub: spec.subject, subject: spec.subject }),',
      changes: ['ConditionalExpression: spec.subject !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(expiresAt !== undefined && { exp: expiresAt }),',
      changes: ['ConditionalExpression: expiresAt !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/answer-validation.ts': [
    {
      line: 'if (schema.Check(status)) return',
      changes: ['ConditionalExpression: schema.Check(status) -> false'],
      why: 'the quick check of a status only spares the search for words',
    },
    {
      line: 'for (const { kind, name } of desired.pruned ?? []) accountedFor.add(`${kind}/${name}`)',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'other pruned objects have no name, and no child has that name',
    },
  ],
  'hooks/background-task.ts': [
    {
      line: 'clearTimeout(timer)',
      changes: ['CallExpression: clearTimeout(timer) -> ;'],
      why: 'a timer without a waiter does nothing',
    },
  ],
  'hooks/backup-schedule/observe.ts': [
    {
      line: '...(bytes !== undefined && { bytes }),',
      changes: ['ConditionalExpression: bytes !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(current !== undefined && { schedule: current }),',
      changes: ['ConditionalExpression: current !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'return lastSlot === undefined ? observed : { ...observed, lastSlot }',
      changes: ['ConditionalExpression: lastSlot === undefined -> false'],
      why: UNDEFINED,
    },
  ],
  'hooks/backup-schedule/retention.ts': [
    {
      line: '...(status.clusterUid !== undefined && { clusterUid: status.clusterUid }),',
      changes: ['ConditionalExpression: status.clusterUid !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/backup-schedule/status.ts': [
    {
      line: '...(completionTime !== undefined && { lastBackupTime: completionTime }),',
      changes: ['ConditionalExpression: completionTime !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(phase !== undefined && { lastBackupStatus: phase }),',
      changes: ['ConditionalExpression: phase !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/backup-schedule/tick.ts': [
    {
      line: '.toSorted((a, b) => (a.metadata.name < b.metadata.name ? 1 : -1))',
      changes: [
        'EqualityOperator: a.metadata.name < b.metadata.name -> a.metadata.name <= b.metadata.name',
      ],
      why: 'no two backups have one name',
    },
    {
      line: "const phase = backup.status?.phase === 'Completed' ? 'Completed' : 'Failed'",
      changes: ['OptionalChaining: backup.status?.phase -> backup.status.phase'],
      why: 'what has finished has a status: this is for the type only',
    },
    {
      line: "const phase = backup.status?.phase === 'Completed' ? 'Completed' : 'Failed'",
      changes: ['StringLiteral: \'Failed\' -> ""'],
      why: 'what has finished and is not Completed counts as failed by any word',
    },
    {
      line: 'return slot === undefined ? [] : [{ name: backup.metadata.name, slot, phase }]',
      changes: [
        'ConditionalExpression: slot === undefined -> false',
        'ArrayDeclaration: [] -> ["Stryker was here"]',
      ],
      why: 'what stands was made for a slot: this is for the type only',
    },
    {
      line: 'if (error instanceof Rejected) return error',
      changes: ['ConditionalExpression: error instanceof Rejected -> true'],
      why: ONLY_REJECTED,
    },
  ],
  'hooks/backup/deletion-policy.ts': [
    {
      line: 'const { ownerReferences = [] } = metadata',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'a text is no owner: it is not found',
    },
  ],
  'hooks/backup/finalize.ts': [
    {
      line: '...(purge !== undefined && { purge }),',
      changes: ['ConditionalExpression: purge !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(requeueAfterSeconds !== undefined && { requeueAfterSeconds }),',
      changes: ['ConditionalExpression: requeueAfterSeconds !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "const isOlder = Date.parse(metadata.creationTimestamp ?? '') <= Date.parse(deletedAt)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: 'const refreshed = { ...deletion }',
      changes: ['ObjectLiteral: { ...deletion } -> {}'],
      why: 'without another report that of the deletion stays',
    },
    {
      line: 'return refreshed.progress === undefined ? {} : { progress: refreshed.progress }',
      changes: ['ConditionalExpression: refreshed.progress === undefined -> false'],
      why: UNDEFINED,
    },
    {
      line: 'if (deletedAt === undefined) return true',
      changes: [
        'ConditionalExpression: deletedAt === undefined -> false',
        'BooleanLiteral: true -> false',
      ],
      why: 'what is finalized was deleted: the check is for the type only',
    },
    {
      line: "return spec.storage.s3.credentialsSecretRef?.name ?? ''",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'OptionalChaining: spec.storage.s3.credentialsSecretRef?.name -> spec.storage.s3.credentialsSecretRef.name',
      ],
      why: 'a backup without a Secret is purged by a Job: the default is for the type only',
    },
  ],
  'hooks/backup/job.ts': [
    {
      line: "const secretNames = { engine: plan.cluster.key?.secret ?? '', tls: plan.cluster.caSecret ?? '' }",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: REPORTED,
    },
    {
      line: "largeField: 'spec.storage',",
      changes: ['StringLiteral: \'spec.storage\' -> ""'],
      why: SMALL_PLAN,
    },
  ],
  'hooks/backup/observe.ts': [
    {
      line: 'if (apiTime !== undefined) observed.apiTime = apiTime',
      changes: ['ConditionalExpression: apiTime !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(cluster !== undefined && { cluster }),',
      changes: ['ConditionalExpression: cluster !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(statefulSet !== undefined && { statefulSet }),',
      changes: ['ConditionalExpression: statefulSet !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'if (cluster === undefined) delete observed.cluster',
      changes: ['ConditionalExpression: cluster === undefined -> false'],
      why: UNDEFINED,
    },
  ],
  'hooks/backup/status.ts': [
    {
      line: '...(totalSize !== undefined && { totalSize }),',
      changes: ['ConditionalExpression: totalSize !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(collections !== undefined && { collections }),',
      changes: ['ConditionalExpression: collections !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(size !== undefined && { size }),',
      changes: ['ConditionalExpression: size !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/backup/sync.ts': [
    {
      line: 'if (cluster === undefined || leases === undefined || !allObserved(rbac, observed.children)) {',
      changes: [
        'ConditionalExpression: cluster === undefined || leases === undefined -> false',
        'LogicalOperator: cluster === undefined || leases === undefined -> cluster === undefined && leases === undefined',
        'ConditionalExpression: cluster === undefined -> false',
        'ConditionalExpression: leases === undefined -> false',
      ],
      why: REPORTED,
    },
  ],
  'hooks/cluster/consensus.ts': [
    {
      line: "const { namespace = '', name } = record.metadata",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
  ],
  'hooks/cluster/decision.ts': [
    {
      line: '...(formation !== undefined && { formation }),',
      changes: ['ConditionalExpression: formation !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/cluster/finalize.ts': [
    {
      line: 'const { progress, liveJobs = [] } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'the end of a cluster is decided with the live list',
    },
    {
      line: 'const { cluster, jobs, liveJobs = [], progress } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'the end of a cluster is decided with the live list',
    },
    {
      line: 'const { cluster, jobs, liveJobs = [], progress, statefulSet } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'the end of a cluster is decided with the live list',
    },
  ],
  'hooks/cluster/helm-result.ts': [
    {
      line: ": replacedFailure(cluster, latest, finished.lastTransitionTime ?? '')",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: "const failedAt = finished.lastTransitionTime ?? ''",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
  ],
  'hooks/cluster/job.ts': [
    {
      line: "secrets.get(spec.tls.secretRef?.name ?? '')?.data?.['ca.crt'] !== undefined",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'no Secret is known by either name',
    },
    {
      line: '...(startMark !== undefined && { startMark }),',
      changes: ['ConditionalExpression: startMark !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "return { ...run, hash: shortHash('uninstall', metadata.uid) }",
      changes: ['StringLiteral: \'uninstall\' -> ""'],
      why: 'it only keeps this hash apart from those of upgrades',
    },
    {
      line: "largeField: 'metadata.name',",
      changes: ['StringLiteral: \'metadata.name\' -> ""'],
      why: SMALL_PLAN,
    },
  ],
  'hooks/cluster/observe.ts': [
    {
      line: '...(statefulSet !== undefined && { statefulSet }),',
      times: 2,
      nth: 1,
      changes: ['ConditionalExpression: statefulSet !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'const replicas = statefulSet?.spec.replicas ?? 1',
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: 'what is rolled out has a StatefulSet',
    },
    {
      line: 'if (answer.value !== undefined) observed.consensus = answer.value',
      changes: ['ConditionalExpression: answer.value !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'if (answer.failure !== undefined) observed.consensusFailure = answer.failure',
      changes: ['ConditionalExpression: answer.failure !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'if (answer.requeueAfterSeconds !== undefined) {',
      changes: ['ConditionalExpression: answer.requeueAfterSeconds !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "secondsSinceRecorded(finished.lastTransitionTime ?? '', now) >= FINAL_REPORT_TIMEOUT_SECONDS",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
  ],
  'hooks/cluster/shards/job.ts': [
    {
      line: 'cluster: { ...connection, replicas: statefulSet?.spec.replicas ?? connection.replicas },',
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: 'a Job is due only for a StatefulSet',
    },
    {
      line: "hash: shortHash('shards', JSON.stringify(content)),",
      changes: ['StringLiteral: \'shards\' -> ""'],
      why: 'it only keeps this hash apart from those of helm runs',
    },
    {
      line: '...(volumeBytes !== undefined && { volumeBytes }),',
      changes: ['ConditionalExpression: volumeBytes !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "largeField: 'the plan of the Job on shards',",
      changes: ['StringLiteral: \'the plan of the Job on shards\' -> ""'],
      why: SMALL_PLAN,
    },
    {
      line: 'nodes.flatMap(({ ordinal, zone }) => (zone === undefined ? [] : [[String(ordinal), zone]])),',
      changes: ['ConditionalExpression: zone === undefined -> false'],
      why: UNDEFINED,
    },
  ],
  'hooks/cluster/shards/next-step.ts': [
    {
      line: 'const targets = { repair, ...(update !== undefined && { update: { ...repair, update } }) }',
      changes: ['ConditionalExpression: update !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'const nodes = statefulSet?.spec.replicas ?? 1',
      times: 3,
      nth: 2,
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: APPLIED,
    },
    {
      line: 'const nodes = statefulSet?.spec.replicas ?? 1',
      times: 3,
      nth: 3,
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: APPLIED,
    },
    {
      line: 'if (progress?.shards?.balancedNodes === nodes) return nodes',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: APPLIED,
    },
    {
      line: 'if (progress?.shards?.balancedNodes === nodes) return false',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: APPLIED,
    },
    {
      line: "const hasYielded = progress?.verb === 'shards' && progress.shards?.isYielded === true",
      changes: ['OptionalChaining: progress?.verb -> progress.verb'],
      why: APPLIED,
    },
    {
      line: "return failure !== undefined && failure !== 'unknown' && failure.plan === pendingRun.hash",
      changes: [
        "ConditionalExpression: failure !== 'unknown' -> true",
        'StringLiteral: \'unknown\' -> ""',
      ],
      why: 'a failure that is not known yet has no plan: the check is for the type only',
    },
    {
      line: "if (summary === undefined || target === undefined || outcome?.is !== 'step') return undefined",
      changes: [
        'ConditionalExpression: summary === undefined || target === undefined -> false',
        'LogicalOperator: summary === undefined || target === undefined -> summary === undefined && target === undefined',
        'ConditionalExpression: summary === undefined -> false',
        'ConditionalExpression: target === undefined -> false',
        'OptionalChaining: outcome?.is -> outcome.is',
      ],
      why: 'a plan belongs to a target of a summary: the checks are for the type only',
    },
    {
      line: 'if (shards?.obstruction !== undefined)',
      changes: ['OptionalChaining: shards?.obstruction -> shards.obstruction'],
      why: APPLIED,
    },
  ],
  'hooks/cluster/shards/observe.ts': [
    {
      line: '...(answer.value !== undefined && { shards: answer.value }),',
      changes: ['ConditionalExpression: answer.value !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(answer.failure !== undefined && { shardsFailure: answer.failure }),',
      changes: ['ConditionalExpression: answer.failure !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(answer.requeueAfterSeconds !== undefined && {',
      changes: ['ConditionalExpression: answer.requeueAfterSeconds !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'connection: { ...clusterConnection(cluster), replicas: statefulSet?.spec.replicas ?? 1 },',
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: 'nodes are asked only if one of them is ready, so the StatefulSet exists',
    },
    {
      line: '...(volumeBytes !== undefined && { volumeBytes }),',
      changes: ['ConditionalExpression: volumeBytes !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'moves: progress?.shards?.moves ?? [],',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: 'nodes are asked only for what was applied',
    },
    {
      line: '...(progress?.shards?.resharding !== undefined && {',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: 'nodes are asked only for what was applied',
    },
    {
      line: '...(statefulSet !== undefined && { statefulSet }),',
      changes: ['ConditionalExpression: statefulSet !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/cluster/shards/result.ts': [
    {
      line: "return secondsSinceRecorded(finished.lastTransitionTime ?? '', now) < FINAL_REPORT_TIMEOUT_SECONDS",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: "const age = secondsSinceRecorded(finished.lastTransitionTime ?? '', now)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: 'const crashes = newest.status?.failed ?? 1',
      changes: ['OptionalChaining: newest.status?.failed -> newest.status.failed'],
      why: 'a Job that has ended has a status',
    },
  ],
  'hooks/cluster/shards/status.ts': [
    {
      line: 'if (job !== undefined && hasReported(observed, job)) return bounded(progress?.shards?.blocked)',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: HAS_REPORTED,
    },
    {
      line: '...(nodes !== undefined && { nodes }),',
      changes: ['ConditionalExpression: nodes !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(balanced !== undefined && { balancedNodes: balanced }),',
      changes: ['ConditionalExpression: balanced !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'if (job === undefined || !hasReported(observed, job) || progress?.shards === undefined) return {}',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: HAS_REPORTED,
    },
    {
      line: 'const purpose = hasReported(observed, job) ? progress?.shards?.purpose : undefined',
      changes: ['OptionalChaining: progress?.shards -> progress.shards'],
      why: HAS_REPORTED,
    },
    {
      line: 'return purpose !== undefined && purpose in WORK_REASONS',
      changes: ['ConditionalExpression: purpose !== undefined -> true'],
      why: 'the word undefined is no purpose either: the check is for the type only',
    },
    {
      line: "return plans.repair.is === 'waiting' && plans.repair.purpose === 'agreement'",
      changes: ["ConditionalExpression: plans.repair.is === 'waiting' -> true"],
      why: 'a step never has this purpose: the check is for the type only',
    },
  ],
  'hooks/cluster/shards/sync.ts': [
    {
      line: 'const { cluster, jobs, liveJobs = [], leases, conflictingWork = [], progress } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'where work is due the live list was read',
    },
    {
      line: 'if (leases === undefined || !allObserved(rbac, observed.children)) {',
      changes: ['ConditionalExpression: leases === undefined -> false'],
      why: 'where work is due the Leases were read: this is for the type only',
    },
    {
      line: 'const run = nextRunNumber([...jobs, ...liveJobs], progress?.run)',
      changes: ['OptionalChaining: progress?.run -> progress.run'],
      why: 'work on shards is due only for what was applied and has pods',
    },
    {
      line: 'const plan = shardsPlan(observed, { ...work, ...(endsAt !== undefined && { endsAt }) }, run)',
      changes: ['ConditionalExpression: endsAt !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "const { namespace = '', name, uid = '' } = job.metadata",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
    {
      line: 'const message = `spec.replicas: ${statefulSet?.spec.replicas ?? 1} -> ${drainTo} is applied node by node, once the shards of each removed node are on other nodes`',
      changes: ['OptionalChaining: statefulSet?.spec -> statefulSet.spec'],
      why: 'work on shards is due only for what was applied and has pods',
    },
  ],
  'hooks/cluster/status.ts': [
    {
      line: '...(phase !== undefined && { phase }),',
      changes: ['ConditionalExpression: phase !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'const run = progress?.applied?.run ?? 0',
      changes: [
        'OptionalChaining: progress?.applied?.run -> progress?.applied.run',
        'OptionalChaining: progress?.applied -> progress.applied',
      ],
      why: 'asked only of what was applied',
    },
  ],
  'hooks/cluster/sync.ts': [
    {
      line: "if (error instanceof Rejected) return blocked(observed, context, 'InvalidSpec', error.message)",
      changes: ['ConditionalExpression: error instanceof Rejected -> true'],
      why: ONLY_REJECTED,
    },
    {
      line: "const { namespace = '', name, uid = '' } = job.metadata",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
  ],
  'hooks/cluster/validation.ts': [
    {
      line: '} catch {',
      times: 2,
      changes: ['BlockStatement: { -> {}'],
      why: 'undefined is as little a yes',
    },
  ],
  'hooks/collection/engine-cache.ts': [
    {
      line: "return this.#cachedCall('readyz', () => this.engine.notReadyReason(NEVER_ABORTED), signal)",
      changes: ['StringLiteral: \'readyz\' -> ""'],
      why: 'it only keeps this answer apart from the others',
    },
    {
      line: "return this.#cachedCall('version', () => this.engine.version(NEVER_ABORTED), signal)",
      changes: ['StringLiteral: \'version\' -> ""'],
      why: 'it only keeps this answer apart from the others',
    },
  ],
  'hooks/collection/finalize.ts': [
    {
      line: '...(requeueAfterSeconds !== undefined && { requeueAfterSeconds }),',
      changes: ['ConditionalExpression: requeueAfterSeconds !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/collection/observe.ts': [
    {
      line: '...(failure !== undefined && { failure }),',
      changes: ['ConditionalExpression: failure !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "clusterReady: ready?.status === 'True',",
      changes: ["EqualityOperator: ready?.status === 'True' -> ready?.status !== 'True'"],
      why: 'all that is asked of it is whether it changed',
    },
  ],
  'crds/collection-ownership.ts': [
    {
      line: '...(collectionName !== undefined && { collectionName }),',
      changes: ['ConditionalExpression: collectionName !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(aliases !== undefined && { aliases }),',
      changes: ['ConditionalExpression: aliases !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(status?.health !== undefined && { status: { health: status.health } }),',
      changes: ['ConditionalExpression: status?.health !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: 'return order < 0 || (order === 0 && a.metadata.uid < b.metadata.uid)',
      changes: [
        'EqualityOperator: a.metadata.uid < b.metadata.uid -> a.metadata.uid <= b.metadata.uid',
      ],
      why: 'no two resources have one uid',
    },
  ],
  'hooks/collection/reconcile-aliases.ts': [
    {
      line: 'managed: collection.status?.aliases ?? [],',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'what points nowhere is not released',
    },
  ],
  'hooks/collection/reconcile-config.ts': [
    {
      line: "const names = vectors.map(({ name = '' }) => name)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'only the single vector has no name, and it is never requested by name',
    },
    {
      line: "const liveVector = ownValue(live, vector.name ?? '')",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'only the single vector has no name, and it is never requested by name',
    },
  ],
  'hooks/collection/reconcile-indexes.ts': [
    {
      line: 'managed: context.collection.status?.payloadIndexes ?? [],',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'what is not there is not removed',
    },
    {
      line: 'const finalPlan = updated === info ? plan : planFor(updated)',
      changes: ['ConditionalExpression: updated === info -> false'],
      why: 'of the same collection the plan is the same',
    },
    {
      line: 'return live === undefined ? [] : indexDifferences(index, live).map(({ path }) => path)',
      changes: [
        'ConditionalExpression: live === undefined -> false',
        'ArrayDeclaration: [] -> ["Stryker was here"]',
      ],
      why: 'the recreated object exists: the check is for the type only',
    },
    {
      line: '...(pending !== undefined && { pending }),',
      changes: ['ConditionalExpression: pending !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "const PLAIN = new RegExp(String.raw`^${UNQUOTED_KEY}(\\.${UNQUOTED_KEY})*$`, 'u')",
      changes: ['StringLiteral: \'u\' -> ""'],
      why: 'the quick look only spares the steps, which come to the same path',
    },
    {
      line: 'if (PLAIN.test(path)) return path',
      changes: ['ConditionalExpression: PLAIN.test(path) -> false'],
      why: 'the quick look only spares the steps, which come to the same path',
    },
    {
      line: "const { dot = '', raw, quoted = '', item } = match.groups ?? {}",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: 'each is there where it is read: the default is for the type only',
    },
  ],
  'hooks/collection/reconcile.ts': [
    {
      line: '...(managedAliases !== undefined && { aliases: managedAliases }),',
      changes: ['ConditionalExpression: managedAliases !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...{ fields, ...(recreated !== undefined && { recreated }) },',
      changes: ['ConditionalExpression: recreated !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(partial.liveShards !== undefined && { liveShards: partial.liveShards }),',
      changes: ['ConditionalExpression: partial.liveShards !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(payloadIndexes !== undefined && { payloadIndexes }),',
      changes: ['ConditionalExpression: payloadIndexes !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(aliases !== undefined && { aliases }),',
      changes: ['ConditionalExpression: aliases !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/collection/sync.ts': [
    {
      line: '{ conditions = [] }: CollectionStatus,',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'a status that was just made has its conditions',
    },
  ],
  'hooks/conditions.ts': [
    {
      line: "return instant.toISOString().replace(/\\.\\d{3}Z$/, 'Z')",
      changes: ['Regex: /\\.\\d{3}Z$/ -> /\\.\\d{3}Z/'],
      why: 'an instant ends with its milliseconds',
    },
  ],
  'hooks/data-job/next-step.ts': [
    {
      line: '...(silence !== undefined && { conditionReason: silence }),',
      changes: ['ConditionalExpression: silence !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "const { namespace = '', name, uid = '' } = metadata",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
    {
      line: "const { namespace = '', name, creationTimestamp = '', labels } = metadata",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
  ],
  'hooks/data-job/observe.ts': [
    {
      line: "const { namespace = '', name = '' } = cluster?.metadata ?? {}",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
    {
      line: '...(credentials !== undefined && { bucket: credentials }),',
      changes: ['ConditionalExpression: credentials !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(engine !== undefined && { engine }),',
      changes: ['ConditionalExpression: engine !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(tls !== undefined && { tls }),',
      changes: ['ConditionalExpression: tls !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/data-job/secret-copies.ts': [
    {
      line: "{ metadata: { name, namespace = '' } }: Job,",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: "const { name, namespace = '', uid: ownerUid = '' } = metadata",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
    {
      line: "{ apiVersion, kind, metadata: { name, namespace = '', uid = '' } }: Job,",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
  ],
  'hooks/data-job/decision.ts': [
    {
      line: '...(error !== undefined && { error: error.slice(0, MAX_ERROR) }),',
      changes: ['ConditionalExpression: error !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/decision-log.ts': [
    {
      line: 'const fields = { phase, ...(previous?.phase !== undefined && { phaseBefore: previous.phase }) }',
      changes: ['ConditionalExpression: previous?.phase !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/image-pull-secrets.ts': [
    {
      line: "const { uid = '', deletionTimestamp } = job.metadata",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: 'return [{ credential, keys, secret, ...(type !== undefined && { type }) }]',
      changes: ['ConditionalExpression: type !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/job-watch.ts': [
    {
      line: "const silentSeconds = secondsSince(job.metadata.creationTimestamp ?? '', now)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
    {
      line: "secondsSince(finishedCondition(job)?.lastTransitionTime ?? '', now) > settings.historySeconds",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: STORED,
    },
  ],
  'hooks/job.ts': [
    {
      line: '...(release !== undefined && { [LABELS.release]: release }),',
      changes: ['ConditionalExpression: release !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/lease.ts': [
    {
      line: "const age = secondsSince(lease?.spec?.acquireTime ?? '', now)",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'neither is an instant',
    },
  ],
  'hooks/lease-claim.ts': [
    {
      line: '...(resourceVersion !== undefined && { resourceVersion }),',
      changes: ['ConditionalExpression: resourceVersion !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(run !== undefined && { annotations: { [ANNOTATIONS.run]: String(run) } }),',
      changes: ['ConditionalExpression: run !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/maintenance-windows.ts': [
    {
      line: 'if (error instanceof Rejected) return []',
      changes: ['ConditionalExpression: error instanceof Rejected -> true'],
      why: ONLY_REJECTED,
    },
    {
      line: 'throw new Rejected(message, { cause })',
      changes: ['ObjectLiteral: { cause } -> {}'],
      why: 'the cause is only logged',
    },
    {
      line: 'if (error instanceof Rejected) return error.message',
      changes: ['ConditionalExpression: error instanceof Rejected -> true'],
      why: ONLY_REJECTED,
    },
  ],
  'hooks/migration/endpoints.ts': [
    {
      line: 'if (secret === undefined || !copyNames.includes(credential)) return []',
      changes: ['ConditionalExpression: secret === undefined -> false'],
      why: 'what the Job is given has its Secret: this is for the type only',
    },
    {
      line: "return migration.spec.source.endpoint?.url ?? ''",
      changes: [
        "LogicalOperator: migration.spec.source.endpoint?.url ?? '' -> migration.spec.source.endpoint?.url && ''",
        'OptionalChaining: migration.spec.source.endpoint?.url -> migration.spec.source.endpoint.url',
        'StringLiteral: \'\' -> "Stryker was here!"',
      ],
      why: TYPED,
    },
  ],
  'hooks/migration/job.ts': [
    {
      line: "largeField: 'spec.source',",
      changes: ['StringLiteral: \'spec.source\' -> ""'],
      why: SMALL_PLAN,
    },
    {
      line: '...(apiKeySecretRef !== undefined && { apiKey: apiKeySecretRef.key }),',
      changes: ['ConditionalExpression: apiKeySecretRef !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(caSecretRef !== undefined && { ca: caSecretRef.key }),',
      changes: ['ConditionalExpression: caSecretRef !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/migration/observe.ts': [
    {
      line: 'if (clusters.target === undefined || !mayStart) {',
      changes: ['ConditionalExpression: clusters.target === undefined -> false'],
      why: 'nothing may start without the target: this is for the type only',
    },
    {
      line: 'return { ...(source !== undefined && { source }), ...(target !== undefined && { target }) }',
      changes: [
        'ConditionalExpression: source !== undefined -> true',
        'ConditionalExpression: target !== undefined -> true',
      ],
      why: UNDEFINED,
    },
  ],
  'hooks/migration/status.ts': [
    {
      line: '...(progress !== undefined && {',
      changes: ['ConditionalExpression: progress !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(collections !== undefined && { collections }),',
      changes: ['ConditionalExpression: collections !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(progress !== undefined && { progress }),',
      changes: ['ConditionalExpression: progress !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'hooks/migration/sync.ts': [
    {
      line: 'const { migration, clusters, progress, writers = [] } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'where nothing is missing the Leases were read',
    },
    {
      line: 'if (desired === undefined || !allObserved(rbac, observed.children)) {',
      changes: ['ConditionalExpression: desired === undefined -> false'],
      why: REPORTED,
    },
  ],
  'hooks/request-bodies.ts': [
    {
      line: 'await promise.finally(() => clearTimeout(timer))',
      changes: ['ArrowFunction: () => clearTimeout(timer) -> () => undefined'],
      why: 'the timer then fires later and rejects a promise that is settled',
    },
  ],
  'hooks/request.ts': [
    {
      line: '...(progress !== undefined && { progress }),',
      changes: ['ConditionalExpression: progress !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '{ created = [], pruned = [] }: { created?: Child[]; pruned?: PrunedChild[] } = {},',
      changes: [
        'ArrayDeclaration: [] -> ["Stryker was here"]',
        'ArrayDeclaration: [] #2 -> ["Stryker was here"]',
      ],
      why: 'other pruned objects have no name, and no child has that name',
    },
    {
      line: ".map(({ metadata: { namespace = '', name, uid = '' } }) => ({ namespace, name, uid }))",
      changes: [
        'StringLiteral: \'\' -> "Stryker was here!"',
        'StringLiteral: \'\' #2 -> "Stryker was here!"',
      ],
      why: STORED,
    },
  ],
  'hooks/restore/job.ts': [
    {
      line: '...(backup !== undefined && {',
      changes: ['ConditionalExpression: backup !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: "engine: plan.cluster.key?.secret ?? '',",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'asked only of a credential whose Secret was found',
    },
    {
      line: "tls: plan.cluster.caSecret ?? '',",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'asked only of a credential whose Secret was found',
    },
    {
      line: "largeField: 'spec.source',",
      changes: ['StringLiteral: \'spec.source\' -> ""'],
      why: SMALL_PLAN,
    },
  ],
  'hooks/restore/observe.ts': [
    {
      line: '...(cluster !== undefined && { cluster }),',
      times: 2,
      changes: ['ConditionalExpression: cluster !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(backup !== undefined && { backup }),',
      times: 2,
      changes: ['ConditionalExpression: backup !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(progress !== undefined && { progress }),',
      changes: ['ConditionalExpression: progress !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(statefulSet !== undefined && { statefulSet }),',
      changes: ['ConditionalExpression: statefulSet !== undefined -> true'],
      why: UNDEFINED,
    },
    {
      line: '...(cluster === undefined ? [] : clusterCopySources(cluster, secrets, { from, settings })),',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: NO_NAME,
    },
    {
      line: '? []',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: NO_NAME,
    },
  ],
  'hooks/restore/status.ts': [
    {
      line: "const { startTime, sourceBackup = 'the backup' } = status",
      changes: ['StringLiteral: \'the backup\' -> ""'],
      why: 'the default is for the type only: with a start there is a source',
    },
  ],
  'hooks/restore/sync.ts': [
    {
      line: 'const { restore, cluster, leases, conflictingWork = [], progress } = observed',
      changes: ['ArrayDeclaration: [] -> ["Stryker was here"]'],
      why: 'where nothing is missing the others were read',
    },
    {
      line: 'const isRead = cluster !== undefined && leases !== undefined && desired !== undefined',
      changes: [
        'ConditionalExpression: cluster !== undefined && leases !== undefined && desired !== undefined -> true',
        'ConditionalExpression: cluster !== undefined && leases !== undefined && desired !== undefined -> false',
        'LogicalOperator: cluster !== undefined && leases !== undefined && desired !== undefined -> cluster !== undefined && leases !== undefined || desired !== undefined',
        'ConditionalExpression: cluster !== undefined && leases !== undefined -> true',
        'LogicalOperator: cluster !== undefined && leases !== undefined -> cluster !== undefined || leases !== undefined',
        'ConditionalExpression: cluster !== undefined -> true',
        'EqualityOperator: cluster !== undefined -> cluster === undefined',
        'ConditionalExpression: leases !== undefined -> true',
        'EqualityOperator: leases !== undefined -> leases === undefined',
        'ConditionalExpression: desired !== undefined -> true',
        'EqualityOperator: desired !== undefined -> desired === undefined',
      ],
      why: REPORTED,
    },
  ],
  'jobs/backup/nodes/create-snapshot.ts': [
    {
      line: "signal.addEventListener('abort', abort, { once: true })",
      changes: ['BooleanLiteral: true -> false'],
      why: 'a signal aborts once',
    },
  ],
  'jobs/backup/shards/collection.ts': [
    {
      line: 'const fields = { collection, parallelism: maxStreams, streams, memory }',
      changes: ['ObjectLiteral: { collection, parallelism: maxStreams, streams, memory } -> {}'],
      why: 'only logged',
    },
    {
      line: 'const shard = { shardId, ...(found?.shardKey !== undefined && { shardKey: found.shardKey }) }',
      changes: ['ConditionalExpression: found?.shardKey !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'jobs/backup/source-cluster.ts': [
    {
      line: "if (versions.size === 1) return [...versions].join('')",
      changes: ['StringLiteral: \'\' -> "Stryker was here!"'],
      why: 'the only element is not joined to another one',
    },
  ],
  'jobs/restore/deliver-snapshot.ts': [
    {
      line: "deliveryModes.set(node, 'upload')",
      changes: ['StringLiteral: \'upload\' -> ""'],
      why: 'every mode but fetch uploads',
    },
    {
      line: 'const recovery = { node, ...(target.shard !== undefined && { shard: target.shard }) }',
      changes: ['ConditionalExpression: target.shard !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
  'jobs/restore/point-count.ts': [
    {
      line: 'return { points, ...(loss !== undefined && { loss }) }',
      changes: ['ConditionalExpression: loss !== undefined -> true'],
      why: UNDEFINED,
    },
  ],
}
