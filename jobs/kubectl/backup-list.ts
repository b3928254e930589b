/** `backup list`: the backups of a namespace, of a cluster or of a schedule, and what a restore finds in them. */
import { Type, type Static } from '@sinclair/typebox'
import { LABELS } from '../../crds/contract/names.ts'
import { AnyObject } from '../../crds/kubernetes.ts'
import { UnlistedCollections } from '../../crds/schema.ts'
import { backups } from '../clients/kubernetes/api-resources.ts'
import {
  booleanFlag,
  CLUSTER_FLAGS,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
} from './command.ts'
import {
  formatNames,
  formatOutput,
  outputFlags,
  outputFormat,
  formatAge,
  formatColumns,
  formatSeconds,
  oneLine,
} from './output.ts'

export const backupList: CliCommand = {
  name: 'backup list',
  operands: '[<schedule>]',
  operandCount: { min: 0, max: 1 },
  summary: 'list backups, the newest first',
  details: [
    'Reads the VecBackups, not the bucket: `backup verify` proves that the objects are complete. COLLECTIONS is the number of completed collections of all collections. Only a Completed backup can be restored by name.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    'all-namespaces': { type: 'boolean', short: 'A', description: 'all namespaces' },
    cluster: { type: 'string', value: 'NAME', description: 'only backups of this VecCluster' },
    ...outputFlags('name', 'wide'),
  },
  run: listBackups,
}

/** A VecBackup in any state, of any release of the operator. */
const ListedBackup = Type.Composite([
  AnyObject,
  Type.Object({
    spec: Type.Object({
      clusterRef: Type.Object({ name: Type.String(), namespace: Type.Optional(Type.String()) }),
    }),
    status: Type.Optional(
      Type.Object({
        phase: Type.Optional(Type.String()),
        startTime: Type.Optional(Type.String()),
        completionTime: Type.Optional(Type.String()),
        expiresAt: Type.Optional(Type.String()),
        s3Path: Type.Optional(Type.String()),
        totalSize: Type.Optional(Type.String()),
        error: Type.Optional(Type.String()),
        collections: Type.Optional(
          Type.Array(Type.Object({ name: Type.String(), status: Type.String() })),
        ),
        unlistedCollections: UnlistedCollections(),
      }),
    ),
  }),
])
type ListedBackup = Static<typeof ListedBackup>

/** One line of the list. */
interface BackupLine {
  kind: 'VecBackup'
  namespace: string
  name: string
  /** `<namespace>/<name>` */
  cluster: string
  schedule?: string
  phase: string
  createdAt?: string
  /** How long it took, in seconds. */
  seconds?: number
  /** Of all completed snapshots, human-readable. */
  size?: string
  /** Completed collections of all collections, for example `3/3`. */
  collections?: string
  expiresAt?: string
  /** `s3://<bucket>/<prefix>/<name>` */
  location?: string
  error?: string
}

async function listBackups(call: Invocation): Promise<number> {
  const { kubernetes, namespace } = await call.connect()
  const [schedule] = call.operands
  const isAll = booleanFlag(call, 'all-namespaces')
  const found = await kubernetes.list(backups(isAll ? undefined : namespace), ListedBackup)
  const cluster = stringFlag(call, 'cluster')
  const lines = found
    .map(backupLine)
    .filter((line) => schedule === undefined || line.schedule === schedule)
    .filter((line) => cluster === undefined || line.cluster.split('/')[1] === cluster)
    .toSorted((a, b) => (b.createdAt ?? '').localeCompare(a.createdAt ?? ''))
  const text = () =>
    outputFormat(call) === 'name'
      ? formatNames(lines)
      : formatLines(lines, {
          isAll,
          isWide: outputFormat(call) === 'wide',
          now: call.time.now(),
        })
  call.print(formatOutput(call, lines, text))
  return EXIT_CODES.success
}

function backupLine({ metadata, spec: { clusterRef }, status = {} }: ListedBackup): BackupLine {
  const { name, namespace = '', labels, creationTimestamp, deletionTimestamp } = metadata
  const { phase = 'Pending', startTime, completionTime, expiresAt, s3Path, totalSize } = status
  const schedule = labels?.[LABELS.schedule]
  const counted = countCollections(status)
  return {
    kind: 'VecBackup',
    namespace,
    name,
    cluster: `${clusterRef.namespace ?? namespace}/${clusterRef.name}`,
    ...(schedule !== undefined && { schedule }),
    phase: deletionTimestamp === undefined ? phase : `${phase}, being deleted`,
    ...(creationTimestamp !== undefined && { createdAt: creationTimestamp }),
    ...(startTime !== undefined &&
      completionTime !== undefined && {
        seconds: Math.round((Date.parse(completionTime) - Date.parse(startTime)) / 1000),
      }),
    ...(totalSize !== undefined && { size: totalSize }),
    ...(counted !== undefined && { collections: counted }),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(s3Path !== undefined && { location: s3Path }),
    ...(status.error !== undefined && { error: status.error }),
  }
}

function countCollections({
  collections,
  unlistedCollections = {},
}: NonNullable<ListedBackup['status']>): string | undefined {
  if (collections === undefined) return undefined
  const { completed = 0, failed = 0, pending = 0 } = unlistedCollections
  const listed = collections.filter(({ status }) => status === 'Completed').length
  return `${listed + completed}/${collections.length + completed + failed + pending}`
}

interface ListOptions {
  isAll: boolean
  /** Also the schedule, the duration, the expiry and the location. */
  isWide: boolean
  now: Date
}

const MAX_ERROR_WIDTH = 80

function formatLines(lines: BackupLine[], { isAll, isWide, now }: ListOptions): string {
  if (lines.length === 0) return 'No backups.\n'
  const rows = lines.map((line) => [
    ...(isAll ? [line.namespace] : []),
    line.name,
    line.cluster,
    line.phase,
    formatAge(line.createdAt, now),
    line.size ?? '-',
    line.collections ?? '-',
    ...(isWide
      ? [
          line.schedule ?? '-',
          line.seconds === undefined ? '-' : formatSeconds(line.seconds),
          line.expiresAt ?? '-',
          line.location ?? '-',
        ]
      : []),
    oneLine(line.error ?? '', isWide ? Infinity : MAX_ERROR_WIDTH),
  ])
  const head = [
    ...(isAll ? ['NAMESPACE'] : []),
    ...['NAME', 'CLUSTER', 'PHASE', 'AGE', 'SIZE', 'COLLECTIONS'],
    ...(isWide ? ['SCHEDULE', 'DURATION', 'EXPIRES', 'LOCATION'] : []),
    'ERROR',
  ]
  return formatColumns([head, ...rows])
}
