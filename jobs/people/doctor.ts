/** `doctor`: one page on whether the operator can do its work here, and where it cannot. */
import { checkApi, checkCrds } from './doctor/api.ts'
import { checkBuckets } from './doctor/buckets.ts'
import { checkClusters } from './doctor/clusters.ts'
import type { Check, Finding, Patient } from './doctor/finding.ts'
import { checkLeases } from './doctor/leases.ts'
import { checkControllers, checkMetacontroller } from './doctor/metacontroller.ts'
import { checkRights } from './doctor/rights.ts'
import { checkService } from './doctor/service.ts'
import {
  CLUSTER_FLAGS,
  ENDS,
  JSON_FLAG,
  isOn,
  textOf,
  type PeopleCall,
  type PeopleCommand,
} from './command.ts'
import { ownRelease } from './release.ts'
import { columns } from './table.ts'

export const doctor: PeopleCommand = {
  name: 'doctor',
  operands: '',
  takes: { least: 0, most: 0 },
  summary: 'look whether the operator can do its work here',
  details: [
    'Looks at Kubernetes, the CRDs, Metacontroller and its flags, the hook service, your own rights, the engine of every VecCluster, the buckets of backups, and Leases nobody holds. Changes nothing. With -n only what is in that namespace. Exit code 1 where something is wrong; a warning alone is 0.',
    'With --buckets it also reads each bucket from here: this sends the credentials in the Secret that a VecBackup or a VecBackupSchedule names to the address that it names. Without, it prints both.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    buckets: { type: 'boolean', says: 'read the buckets of backups with the Secrets they name' },
    ...JSON_FLAG,
  },
  run: examine,
}

/** In the order in which one thing needs the other. */
const CHECKS: readonly Check[] = [
  checkApi,
  checkCrds,
  checkMetacontroller,
  checkControllers,
  checkService,
  checkRights,
  checkClusters,
  checkBuckets,
  checkLeases,
]

const SIGNS = { fine: 'ok', warning: '!', wrong: 'x' } as const

async function examine(call: PeopleCall): Promise<number> {
  const { kubernetes } = await call.reach()
  const namespace = textOf(call, 'namespace')
  const patient: Patient = {
    kubernetes,
    release: ownRelease(),
    callsBuckets: isOn(call, 'buckets'),
    log: call.log,
    time: call.time,
    signal: call.signal,
    ...(namespace !== undefined && { namespace }),
  }
  const findings: Finding[] = []
  for (const check of CHECKS) findings.push(...(await check(patient)))
  call.print(isOn(call, 'json') ? `${JSON.stringify(findings, null, 2)}\n` : page(findings))
  return findings.some(({ level }) => level === 'wrong') ? ENDS.wrong : ENDS.fine
}

function page(findings: Finding[]): string {
  const rows = findings.map(({ about, level, says }, at) => [
    SIGNS[level],
    findings[at - 1]?.about === about ? '' : about,
    says,
  ])
  const count = (level: Finding['level']) => findings.filter((one) => one.level === level).length
  return `${columns(rows)}\n${count('wrong')} wrong, ${count('warning')} to look at, ${count('fine')} fine\n`
}
