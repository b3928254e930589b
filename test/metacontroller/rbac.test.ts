/** The service's ClusterRole: what the calls of all ports need, and nothing that none of them needs. */
import { readFileSync } from 'node:fs'
import { pino } from 'pino'
import t from 'tap'
import { parse } from 'yaml'
import { VecCollection } from '../../crds/collection.ts'
import type { Progress } from '../../crds/contract/job.ts'
import { API_VERSION, LABELS, MANAGED_BY } from '../../crds/contract/names.ts'
import type { ConfigMap, Secret } from '../../crds/kubernetes.ts'
import type { AccessKeyPorts } from '../../hooks/access-key/observe.ts'
import type { BackupSchedulePorts } from '../../hooks/backup-schedule/observe.ts'
import type { BackupPorts } from '../../hooks/backup/observe.ts'
import type { ClusterPorts } from '../../hooks/cluster/ports.ts'
import type { ShardsQuery } from '../../hooks/cluster/shards/summary.ts'
import type { CollectionPorts } from '../../hooks/collection/ports.ts'
import type { DataJobPorts } from '../../hooks/data-job/observe.ts'
import type { MigrationPorts } from '../../hooks/migration/observe.ts'
import type { RestorePorts } from '../../hooks/restore/observe.ts'
import { EngineConnections } from '../../jobs/clients/engine/transport.ts'
import { Kubernetes } from '../../jobs/clients/kubernetes/client.ts'
import { systemClock } from '../../jobs/clock.ts'
import { backupPorts } from '../../metacontroller/ports/backup.ts'
import { backupSchedulePorts } from '../../metacontroller/ports/backup-schedule.ts'
import {
  accessKeyPorts,
  cachedSecretReader,
  clusterPorts,
  listClusters,
  patchCluster,
} from '../../metacontroller/ports/cluster.ts'
import { collectionPorts, InFlightWrites } from '../../metacontroller/ports/collection.ts'
import { liveStatusReader } from '../../metacontroller/ports/common.ts'
import { serviceReader } from '../../metacontroller/ports/engine-client.ts'
import { migrationPorts } from '../../metacontroller/ports/migration.ts'
import { conflictingWorkPort, restorePorts } from '../../metacontroller/ports/restore.ts'
import { shardPorts } from '../../metacontroller/ports/shards.ts'
import { systemTimers } from '../../metacontroller/runtime.ts'
import { allAllowed } from '../builders.ts'
import { embeddedApi, installCrds } from './embedded.ts'

const ROLE = new URL('../../chart/templates/rbac-service.yaml', import.meta.url)
const NAME = { namespace: 'ns', name: 'a' }
const IDENTITY = { ...NAME, uid: 'uid' }
const { signal } = new AbortController()

/** One call of every port, by its name: a port that is new must be called here too. */
type Uses<Ports> = { [Name in keyof Ports]: (ports: Ports) => unknown }

const event = {
  metadata: NAME,
  involvedObject: { apiVersion: API_VERSION, kind: 'VecCluster', ...IDENTITY },
  ...{ type: 'Normal' as const, reason: 'Tested', message: '', at: '2026-03-01T12:00:00Z' },
}

const copy: Secret = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: {
    ...NAME,
    ownerReferences: [{ apiVersion: 'batch/v1', kind: 'Job', name: 'a', uid: 'uid' }],
  },
}

/** Only where Jobs move data is it asked whether a migration is one of them. */
const MOVES = { [LABELS.managedBy]: MANAGED_BY, [LABELS.component]: 'transfer' }

const lease = {
  apiVersion: 'coordination.k8s.io/v1' as const,
  kind: 'Lease' as const,
  metadata: NAME,
}

const record: ConfigMap = {
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { namespace: 'ns', name: 'vec-a.formed' },
  data: { nodes: '3' },
}

const SHARDS_QUERY: ShardsQuery = {
  connection: { namespace: 'ns', name: 'a', replicas: 1, tls: false },
  claimTemplate: 'qdrant-storage',
  recorded: [{ ordinal: 0, peer: 1, node: 'worker' }],
  moves: [],
  uid: 'uid-1',
  targets: () => ({
    repair: {
      ...{ nodes: 1, repair: true, balance: false, lost: [], maxTransfers: 1 },
      ...{ allowsFewerReplicas: false },
    },
  }),
}

async function readHolders({ holderState }: Pick<ClusterPorts, 'holderState'>): Promise<void> {
  for (const kind of ['VecBackup', 'VecRestore', 'VecCluster'])
    await holderState({ kind, namespace: 'ns', name: 'a', uid: 'uid' })
}

const ofCluster: Uses<ClusterPorts> = {
  secret: (ports) => ports.secret('ns', 'a'),
  jobsOf: (ports) => ports.jobsOf('ns', 'uid'),
  lease: (ports) => ports.lease('ns', 'vec-a-write'),
  holderState: readHolders,
  writeLease: (ports) => ports.writeLease(lease),
  deleteLease: (ports) => ports.deleteLease(lease),
  configMap: (ports) => ports.configMap('ns', 'vec-a.formed'),
  writeConfigMap: async (ports) => {
    await ports.writeConfigMap(record)
    const created = await ports.configMap('ns', record.metadata.name)
    if (created !== undefined) await ports.writeConfigMap(created)
  },
  unfinishedHelmJobs: (ports) => ports.unfinishedHelmJobs('ns', 10),
  cluster: (ports) => ports.cluster('ns', 'a'),
  statefulSet: (ports) => ports.statefulSet('ns', 'a'),
  missingObjects: (ports) =>
    ports.missingObjects(
      'ns',
      (['Service', 'ConfigMap', 'ServiceAccount', 'Secret', 'PodDisruptionBudget'] as const).map(
        (kind) => ({ kind, name: 'vec-a' }),
      ),
    ),
  schedule: (ports) => ports.schedule('ns', 's'),
  backup: (ports) => ports.backup('ns', 'b'),
  pods: (ports) => ports.pods('ns', 'vec-a'),
  isNamespaceTerminating: (ports) => ports.isNamespaceTerminating('ns'),
  liveSecret: (ports) => ports.liveSecret('ns', 'a'),
  nodeKeys: () => 'asks the engine',
  tokensSignedWith: (ports) => ports.tokensSignedWith(NAME, 'f', () => true),
  keepKeys: async (ports) => {
    await ports.keepKeys(NAME, [])
  },
  consensus: () => 'asks the engine',
  // Nothing answers at the address of the engine: there is nothing to repair from, so backups are listed.
  shards: (ports) => ports.shards(SHARDS_QUERY, signal),
  retainedVolumes: (ports) => ports.retainedVolumes('ns', ['qdrant-storage-vec-a-1']),
  conflictingWork: (ports) => ports.conflictingWork(NAME, allAllowed),
  deleteJob: (ports) => ports.deleteJob(IDENTITY),
  writeEvent: (ports) => ports.writeEvent(event),
}

const ofCollection: Uses<CollectionPorts> = {
  engine: () => 'asks the engine',
  collectionsOf: (ports) => ports.collectionsOf(NAME, { metadata: IDENTITY } as VecCollection),
  cluster: (ports) => ports.cluster(NAME),
  writeHolder: (ports) => ports.writeHolder(NAME, () => true),
  podVersions: (ports) => ports.podVersions(NAME),
  writeEvent: (ports) => ports.writeEvent(event),
  now: (ports) => ports.now(),
  wait: (ports) => ports.wait(0, signal),
}

const ofAccessKey: Uses<AccessKeyPorts> = {
  secret: (ports) => ports.secret('ns', 'a'),
  liveSecret: (ports) => ports.liveSecret('ns', 'a'),
  writeEvent: (ports) => ports.writeEvent(event),
}

const ofTransfer: Uses<DataJobPorts> = {
  lease: (ports) => ports.lease('ns', 'a'),
  holderState: readHolders,
  jobsOf: (ports) => ports.jobsOf('ns', 'uid'),
  writeLease: async (ports) => {
    await ports.writeLease(lease)
    const made = await ports.lease('ns', 'a')
    if (made !== undefined) await ports.writeLease(made)
  },
  deleteLease: (ports) => ports.deleteLease(lease),
  secret: (ports) => ports.secret('ns', 'a'),
  secretCopy: (ports) => ports.secretCopy('ns', 'a'),
  writeSecretCopy: async (ports) => {
    await ports.writeSecretCopy(copy)
    await ports.writeSecretCopy(copy)
  },
  deleteSecretCopy: (ports) => ports.deleteSecretCopy({ ...NAME, ownerUid: 'uid' }),
  cluster: (ports) => ports.cluster('ns', 'a'),
  deleteJob: (ports) => ports.deleteJob(IDENTITY),
  writeEvent: (ports) => ports.writeEvent(event),
}

/** No code reads from there. */
const STORAGE = {
  ...{ bucket: 'store', region: 'us-east-1', prefix: '', forcePathStyle: true },
  credentialsSecretRef: { name: 's3', accessKeyIdKey: 'id', secretAccessKeyKey: 'key' },
}

const ofBackup: Uses<BackupPorts> = {
  ...ofTransfer,
  serviceAccount: (ports) => ports.serviceAccount('ns', 'a'),
  configMap: (ports) => ports.configMap('ns', 'a'),
  statefulSet: (ports) => ports.statefulSet('ns', 'a'),
  backup: (ports) => ports.backup('ns', 'a'),
  deleteBackup: (ports) => ports.deleteBackup(IDENTITY),
  apiTime: (ports) => ports.apiTime('ns'),
  replaceReport: (ports) => ports.replaceReport(IDENTITY, REPORT),
  restoresReading: (ports) => ports.restoresReading({ ...NAME, storage: STORAGE }),
  backupsToRestore: (ports) => ports.backupsToRestore([]),
  helmJobsAt: (ports) => ports.helmJobsAt(NAME),
  schedulePolicy: (ports) => ports.schedulePolicy('ns', 'a'),
  isNamespaceTerminating: (ports) => ports.isNamespaceTerminating('ns'),
  purge: () => 'asks the bucket',
  warn: (ports) => ports.warn(NAME, 'the objects stay'),
}

const REPORT: Progress = {
  ...{ uid: 'uid', verb: 'run', run: 1, job: 'job', runner: 'pod', plan: 'hash', state: 'Done' },
  ...{ at: '2026-03-01T12:00:00Z', startedAt: '2026-03-01T12:00:00Z' },
}

const ofRestore: Uses<RestorePorts> = {
  ...ofTransfer,
  serviceAccount: (ports) => ports.serviceAccount('ns', 'a'),
  configMap: (ports) => ports.configMap('ns', 'a'),
  statefulSet: (ports) => ports.statefulSet('ns', 'a'),
  backup: (ports) => ports.backup('ns', 'a'),
  restore: (ports) => ports.restore('ns', 'a'),
  conflictingWork: (ports) => ports.conflictingWork(NAME, allAllowed),
}

const ofMigration: Uses<MigrationPorts> = {
  ...ofTransfer,
  migration: (ports) => ports.migration('ns', 'a'),
  notReadyReason: () => 'asks the engine',
}

const ofSchedule: Uses<BackupSchedulePorts> = {
  schedule: (ports) => ports.schedule('ns', 'a'),
  backupsOf: (ports) => ports.backupsOf(IDENTITY),
  backup: (ports) => ports.backup('ns', 'a'),
  cluster: (ports) => ports.cluster('ns', 'a'),
  restore: (ports) => ports.restore('ns', 'a'),
  backupsToRestore: (ports) => ports.backupsToRestore([]),
  writeEvent: (ports) => ports.writeEvent(event),
}

async function use<Ports>(ports: Ports, uses: Uses<Ports>): Promise<void> {
  for (const name in uses) await uses[name](ports)
}

t.test(
  'the ClusterRole of the service has the permissions that its calls need, and no others',
  async (t) => {
    const { api, server } = await embeddedApi(t)
    await installCrds(api)
    const calls: Call[] = []
    const write = (line: string) => calls.push(JSON.parse(line) as Call)
    const log = pino({ level: 'debug' }, { write })
    const authorization = `Bearer ${server.token}`
    const authorize = async () => ({ headers: { authorization }, dispatcher: undefined })
    const kubernetes = new Kubernetes({ server: server.url, authorize }, log)

    const connections = new EngineConnections()
    t.teardown(() => connections.close())
    const now = () => new Date()
    const secret = cachedSecretReader(kubernetes, now)
    const common = { kubernetes, secret, namespaces: [], now, log: pino({ level: 'silent' }) }
    const engines = { connections, route: 'direct' as const, freshSecret: secret }
    const writes = new InFlightWrites()
    const tools = {
      ...{ ...common, jobKeys: () => [], consensus: async () => [] },
      nodeKeys: async () => [],
      shards: shardPorts({ ...common, ...engines }),
      conflictingWork: conflictingWorkPort({ kubernetes, namespaces: [], inFlightWrites: writes }),
    }
    await serviceReader(kubernetes, now)('ns', 'vec-a')
    await use(clusterPorts(tools), ofCluster)
    await use(
      collectionPorts({ ...tools, ...engines, timers: systemTimers, inFlightWrites: writes }),
      ofCollection,
    )
    // Of the kinds whose deletion needs the hook, only collections are read for nothing else.
    const { plural, schema } = VecCollection
    const { status } = schema.properties
    await liveStatusReader(kubernetes)({ plural, status }, { metadata: IDENTITY } as VecCollection)
    await use(accessKeyPorts(tools), ofAccessKey)
    await use(backupPorts({ ...common, clock: systemClock }), ofBackup)
    await use(backupSchedulePorts(common), ofSchedule)
    const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { ...NAME, labels: MOVES } }
    const containers = [{ name: 'a', image: 'vec-operator:test' }]
    await api.create({
      ...job,
      spec: { template: { spec: { restartPolicy: 'Never', containers } } },
    })
    await use(restorePorts({ ...common, inFlightWrites: writes }), ofRestore)
    await use(migrationPorts({ ...common, ...engines }), ofMigration)
    await listClusters(kubernetes, [])
    await patchCluster(kubernetes, { ...copy, metadata: NAME }, {})

    const needed = new Set(calls.map(rightOf))
    t.strictSame([...new Set(granted())].sort(), [...needed].sort())
  },
)

interface Call {
  method: string
  path: string
}

interface Rule {
  apiGroups: string[]
  resources: string[]
  verbs: string[]
}

/** Each right of the template's first ClusterRole, as `<group>/<resource> <verb>`. */
function granted(): string[] {
  const [, rules = ''] = readFileSync(ROLE, 'utf8').split('\n---\n')[0]?.split('\nrules:\n') ?? []
  return (parse(rules) as Rule[]).flatMap(({ apiGroups, resources, verbs }) =>
    apiGroups.flatMap((group) =>
      resources.flatMap((one) => verbs.map((verb) => `${group}/${one} ${verb}`)),
    ),
  )
}

const WRITES: Record<string, string> = {
  POST: 'create',
  PUT: 'update',
  PATCH: 'patch',
  DELETE: 'delete',
}

/** The right that a call asks for. */
function rightOf({ method, path }: Call): string {
  const [, root, ...parts] = path.split('?')[0]?.split('/') ?? []
  const [group = ''] = root === 'apis' ? parts : []
  const rest = parts.slice(root === 'apis' ? 2 : 1)
  // A namespace is an object too: then nothing follows its name.
  const [resource = '', name] = rest[0] === 'namespaces' && rest.length > 2 ? rest.slice(2) : rest
  return `${group}/${resource} ${WRITES[method] ?? (name === undefined ? 'list' : 'get')}`
}
