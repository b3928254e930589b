/** `doctor`: checks whether the operator can work in this cluster and reports every problem. */
import {
  booleanFlag,
  CLUSTER_FLAGS,
  EXIT_CODES,
  stringFlag,
  type CliCommand,
  type Invocation,
  cliVersion,
} from '../command.ts'
import { formatOutput, outputFlags, formatColumns } from '../output.ts'
import { checkApi, checkCrds, checkPermissions } from './api-server.ts'
import type { Check, CheckContext, CheckResult } from './check.ts'
import { checkControllers, checkMetacontroller, checkService } from './installation.ts'
import { checkMetrics } from './metrics.ts'
import { checkBuckets, checkClusters, checkLeases, checkConditions } from './resources.ts'

export const doctor: CliCommand = {
  name: 'doctor',
  operands: '',
  operandCount: { min: 0, max: 0 },
  summary: 'check whether the operator can work in this cluster',
  details: [
    'Checks Kubernetes, the CRDs, Metacontroller and its flags, the hook service, your permissions, the engine of every VecCluster, conditions and metrics that mean danger, the buckets of backups, and Leases whose holder is gone. Changes nothing. -n limits the checks of resources to one namespace. Warnings alone do not fail the command.',
    '--buckets also reads each bucket from this machine: it sends the credentials in the Secret of a VecBackup or a VecBackupSchedule to the endpoint in its spec. Without --buckets, the Secret and the endpoint are only printed.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    buckets: {
      type: 'boolean',
      description: 'read the buckets of backups with their credentials',
    },
    ...outputFlags(),
  },
  run: runChecks,
}

/** In order of dependency. */
const CHECKS: readonly Check[] = [
  checkApi,
  checkCrds,
  checkMetacontroller,
  checkControllers,
  checkService,
  checkPermissions,
  checkClusters,
  checkConditions,
  checkMetrics,
  checkBuckets,
  checkLeases,
]

const SYMBOLS = { fine: 'ok', warning: '!', wrong: 'x' } as const

async function runChecks(call: Invocation): Promise<number> {
  const { kubernetes } = await call.connect()
  const namespace = stringFlag(call, 'namespace')
  const context: CheckContext = {
    kubernetes,
    release: cliVersion(),
    readsBuckets: booleanFlag(call, 'buckets'),
    log: call.log,
    time: call.time,
    signal: call.signal,
    ...(namespace !== undefined && { namespace }),
  }
  const results: CheckResult[] = []
  for (const check of CHECKS) results.push(...(await check(context)))
  call.print(formatOutput(call, results, () => formatResults(results)))
  return results.some(({ level }) => level === 'wrong') ? EXIT_CODES.failure : EXIT_CODES.success
}

function formatResults(results: CheckResult[]): string {
  const rows = results.map(({ about, level, says }, index) => [
    SYMBOLS[level],
    results[index - 1]?.about === about ? '' : about,
    says,
  ])
  const count = (level: CheckResult['level']) =>
    results.filter((result) => result.level === level).length
  return `${formatColumns(rows)}\n${count('wrong')} failed, ${count('warning')} warnings, ${count('fine')} ok\n`
}
