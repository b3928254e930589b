/**
 * `restore plan`: all that a restore looks at before it touches anything, looked at by a person. The
 * same checks as those of the Job, in the same order, with the rights of the caller.
 */
import { EngineError, Rejected, StorageError } from '../../crds/errors.ts'
import type { VecRestore } from '../../crds/restore.ts'
import { targetOf } from '../../crds/rules/restore-places.ts'
import { humanSize } from '../../crds/size.ts'
import { wordsOf } from '../clients/call.ts'
import { checkCollection, existing } from '../restore/fitting.ts'
import { atTarget } from '../restore/shard-ids.ts'
import { checkRoom, type Share } from '../restore/room.ts'
import { chosen } from '../restore/source.ts'
import { checkTarget } from '../restore/target.ts'
import type { Inspection } from '../restore/work.ts'
import { bytesOf, type Wanted } from '../restore/wanted.ts'
import {
  CLUSTER_FLAGS,
  ENDS,
  JSON_FLAG,
  isOn,
  type PeopleCall,
  type PeopleCommand,
} from './command.ts'
import { inspectionOf, restoreOf } from './restore-inspection.ts'
import { Outlook, isTooMuch, shardTables, type PlannedShard } from './restore-shards.ts'
import { columns } from './table.ts'

export const restorePlan: PeopleCommand = {
  name: 'restore plan',
  operands: '[<restore>]',
  takes: { least: 0, most: 1 },
  summary: 'look whether a VecRestore would succeed, and touch nothing',
  details: [
    'Of a VecRestore that is there, or of one in a file that was not applied yet. Reads the manifest, asks every node of the target, and compares each collection with what stands there. Of a backup by shard it shows which shard goes where, and what room each node has. Needs to read the Secrets of the bucket and of the cluster. --endpoint is for a store that has another address here than inside the cluster.',
  ],
  flags: {
    ...CLUSTER_FLAGS,
    file: { type: 'string', short: 'f', value: 'FILE', says: 'manifest of the VecRestore' },
    endpoint: { type: 'string', value: 'URL', says: 'of the store, as it is reached from here' },
    ...JSON_FLAG,
  },
  run: look,
}

/** What would become of one collection. */
interface Verdict {
  collection: string
  becomes: string
  bytes: number
  /** Absent where it does not fit. */
  does?: 'is made' | 'replaces what is there'
  problem?: string
}

async function look(call: PeopleCall): Promise<number> {
  const reach = await call.reach()
  const restore = await restoreOf(call, reach)
  const { bucket, work, readSource } = await inspectionOf(restore, call, reach)
  try {
    const manifest = await readSource()
    const wanted = chosen(manifest, restore.spec)
    await checkTarget(manifest, wanted, work)
    await checkRoom(wanted, work)
    const outlook = new Outlook(work)
    const verdicts: Verdict[] = []
    for (const one of wanted) verdicts.push(await verdictOn(one, work, outlook))
    const { backupName, createdAt, engineVersion, nodeCount } = manifest
    const version = engineVersion === undefined ? {} : { engineVersion }
    const source = { backupName, createdAt, nodeCount, ...version }
    const shards = outlook.shards()
    const nodes = await outlook.nodes()
    const found: Found = { source, verdicts, shards, nodes }
    call.print(isOn(call, 'json') ? json(found) : page(restore, found))
    const isFine = verdicts.every(({ problem }) => problem === undefined) && !nodes.some(isTooMuch)
    return isFine ? ENDS.fine : ENDS.wrong
  } finally {
    bucket.close()
  }
}

async function verdictOn(wanted: Wanted, work: Inspection, outlook: Outlook): Promise<Verdict> {
  const { source, name } = wanted
  const verdict = { collection: source.name, becomes: name, bytes: bytesOf(source) }
  try {
    const sight = await checkCollection(wanted, work)
    outlook.add(atTarget(wanted, sight), sight)
    const isThere = (await existing(name, work)) !== undefined
    return { ...verdict, does: isThere ? 'replaces what is there' : 'is made' }
  } catch (error) {
    work.tools.signal.throwIfAborted()
    const kinds = [Rejected, EngineError, StorageError]
    if (!kinds.some((kind) => error instanceof kind)) throw error
    return { ...verdict, problem: wordsOf(error) }
  }
}

interface Source {
  backupName: string
  createdAt: string
  /** Another program did not record it. */
  engineVersion?: string
  nodeCount: number
}

/** All that was looked at; shards and nodes only of backups by shard. */
interface Found {
  source: Source
  verdicts: Verdict[]
  shards: PlannedShard[]
  nodes: Share[]
}

function page(restore: VecRestore, { source, verdicts, shards, nodes }: Found): string {
  const target = targetOf(restore)
  const rows = verdicts.map(({ collection, becomes, bytes, does, problem }) => [
    problem === undefined ? 'ok' : 'x',
    collection,
    becomes,
    humanSize(bytes),
    problem ?? does ?? '',
  ])
  const bytes = verdicts.reduce((sum, verdict) => sum + verdict.bytes, 0)
  const failing = verdicts.filter(({ problem }) => problem !== undefined).length
  return [
    `backup ${source.backupName} of ${source.createdAt}, engine ${source.engineVersion ?? 'unknown'}, ${source.nodeCount} nodes\n`,
    `into cluster ${target.namespace}/${target.name}\n\n`,
    columns([['', 'COLLECTION', 'BECOMES', 'SIZE', 'WOULD'], ...rows]),
    shardTables(shards, nodes),
    `\n${verdicts.length - failing} of ${verdicts.length} collections fit, ${humanSize(bytes)} in all; nothing was touched\n`,
  ].join('')
}

function json(value: unknown): string {
  return `${JSON.stringify(value, null, 2)}\n`
}
