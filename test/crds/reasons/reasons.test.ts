/** The table of reasons is complete: every reason of the code is in it, and the code has every reason of it. */
import { globSync, readFileSync } from 'node:fs'
import t from 'tap'
import { REASONS } from '../../../crds/reasons/index.ts'
import { matchScore } from '../../../crds/reasons/reason.ts'
import { RESOURCES } from '../../../crds/crd.ts'
import { BUCKET_ACCESS, emittedReasons, ROOT, type Source } from './emitted.ts'

/** Text that all kinds share: the clients of jobs, and messages in crds. */
const SHARED_TEXTS = globSync(['jobs/clients/**/*.ts', 'crds/**/*.ts'], {
  cwd: ROOT,
  exclude: ['crds/reasons/**'],
}).map((path) => readFileSync(ROOT + path, 'utf8'))

const sources = emittedReasons()
const byPath = new Map(sources.map((source) => [source.path, source]))

/** The part between two placeholders is too short to search for. */
const SHORTEST = 6

/** Reasons of a shared file that never are those of a condition in the table of the kind. */
const UNREACHABLE = [
  {
    path: 'hooks/conditions.ts',
    reasons: ['Failed', 'SpecChanged'],
    kinds: RESOURCES.map(({ kind }): string => kind),
    why: 'only of the kstatus conditions, which otherwise repeat the reason of another condition',
  },
  {
    path: 'hooks/cross-namespace.ts',
    reasons: ['RefNotPermitted'],
    kinds: ['VecCluster'],
    why: 'it uses blockingRules alone: a cluster refers to nothing in another namespace',
  },
  {
    path: 'hooks/cross-namespace.ts',
    reasons: ['ClusterHibernated'],
    kinds: ['VecCluster', 'VecAccessKey'],
    why: 'hibernationBlocker is for what needs the pods of another resource: an access key is written without them',
  },
  {
    path: 'hooks/cross-namespace.ts',
    reasons: ['RefNotPermitted'],
    kinds: ['VecBackupSchedule'],
    why: 'it only asks whether the cluster may be read: its backups report that they may not use it',
  },
  {
    path: BUCKET_ACCESS,
    reasons: [
      ...['ServiceAccountNotAllowed', 'ServiceAccountNotFound'],
      ...['SecretNotFound', 'InvalidSecret', 'ConfigMapNotFound', 'InvalidConfigMap'],
      'InvalidCertificate',
    ],
    kinds: ['VecCluster', 'VecMigration'],
    why: 'they only ask whether the type of a Secret may be used: they access no bucket',
  },
  {
    path: 'hooks/data-job/preconditions.ts',
    reasons: ['InvalidAccess'],
    kinds: ['VecMigration'],
    why: 'it accesses no bucket',
  },
]

for (const { kind } of RESOURCES) {
  const folder = kind
    .slice('Vec'.length)
    .replaceAll(/(?<=[a-z])[A-Z]/g, '-$&')
    .toLowerCase()
  const files = filesOf(folder)
  const rows = REASONS[kind]

  t.test(`every reason the hooks and Jobs of a ${kind} can give is explained`, async (t) => {
    const emitted = new Set(files.flatMap((source) => reasonsFor(kind, source)))
    t.strictSame([...emitted].toSorted(), rows.map(({ reason }) => reason).toSorted())
  })

  t.test(`every message of a ${kind} that is explained is in the code`, async (t) => {
    const text = [...files.map((file) => file.text), ...SHARED_TEXTS].join('\n')
    for (const message of rows.flatMap(({ messages }) => messages)) {
      const parts = message.split(/<[^>]+>/).flatMap((part) => part.split(/: |; | -> /))
      for (const part of parts
        .map((words) => words.trim().replace(/[,;]$/, ''))
        .filter(isDistinctive)) {
        const words = part.split(COMPUTED).map((one) => one.trim())
        const isInCode = words.filter(isDistinctive).every((one) => text.includes(one))
        t.ok(isInCode || CONSTANTS.test(part), `${message}: ${part}`)
      }
    }
  })
}

/** Numbers are constants, and locations are formatted; the words around them are in the code. */
const COMPUTED = /s3:\/\/|(?:after )?\b\d+(?: minutes)?/
/** Names of annotations are constants. */
const CONSTANTS = /vec-operator\.dev\/|^not emptied/

t.test('a form matches a message by its fixed words', async (t) => {
  t.equal(
    matchScore('helm run <n> is in progress', 'helm run 12 is in progress'),
    'helmrunisinprogress'.length,
  )
  t.equal(matchScore('<n>/<n> replicas ready', '1/3 replicas ready'), 'replicasready'.length)
  t.equal(matchScore('helm run <n> is in progress', 'helm run is in progress'), 0)
  t.equal(matchScore('<what helm printed>', 'anything at all'), 0, 'only what differs is no form')
  t.equal(matchScore('<pod>: <error>', 'a: b'), 0, 'nor are points')
  t.equal(matchScore('x (a.b) <n>', 'x (a.b) 1'), 3)
  t.equal(matchScore('x (a.b) <n>', 'x (aXb) 1'), 0)
})

/** The hooks and the Jobs of a kind, and the shared files that the hooks use. */
function filesOf(folder: string): Source[] {
  const own = sources.filter(
    ({ path }) => /^(hooks|jobs)\//.test(path) && path.includes(`/${folder}/`),
  )
  const shared = new Set<Source>()
  const follow = (source: Source) => {
    for (const path of source.imports) {
      const imported = byPath.get(path)
      if (
        imported === undefined ||
        !(path === BUCKET_ACCESS || /^hooks\/(data-job\/)?[^/]+$/.test(path)) ||
        shared.has(imported)
      )
        continue
      shared.add(imported)
      follow(imported)
    }
  }
  own.forEach(follow)
  return [...own, ...shared]
}

/** Reasons of a file for this kind: some functions of a shared file are not used by every importer. */
function reasonsFor(kind: string, { path, reasons }: Source): string[] {
  const unreachable = new Set(
    UNREACHABLE.filter((one) => one.path === path && one.kinds.includes(kind)).flatMap(
      (one) => one.reasons,
    ),
  )
  return reasons.filter((reason) => !unreachable.has(reason))
}

function isDistinctive(words: string): boolean {
  return words.length >= SHORTEST && /[a-z] [a-z]/.test(words)
}
