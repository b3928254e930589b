/**
 * The configuration of a collection that is restored over: changed to that of the backup as far as the
 * engine can change it, and what stays different has a name.
 */
import { isDeepStrictEqual } from 'node:util'
import { EngineError } from '../../crds/errors.ts'
import type { ManifestCollection } from '../../crds/manifest.ts'
import type { CollectionBody } from '../../crds/rules/bodies.ts'
import { assembled, isPlain, own, type Plain } from '../../crds/rules/objects.ts'
import type { LiveCollection } from '../clients/engine-recovery-answers.ts'
import { patiently } from '../patience.ts'
import { collectionsOn, recoveryOn, type Work } from './work.ts'
import type { Wanted } from './wanted.ts'

/** As the engine shows it; what it holds besides `params` is looked at part by part. */
export type Config = ManifestCollection['config'] & Plain

/** One value, where it is in the configuration and in the body of PATCH, if that knows it. */
interface Setting {
  path: string[]
  value: unknown
  patch?: string[]
  /** What a PATCH says for a value that the backup does not have. */
  unset?: unknown
  /** A newer engine may show more of these: one that the backup does not mention is not a difference. */
  isOpen?: true
}

export interface Difference {
  path: string[]
  recorded: unknown
  live: unknown
  patch?: { path: string[]; value: unknown }
}

/** Differences that are named in a note. */
const MAX_NAMED = 5
/** Of the value of a difference, in characters. */
const MAX_VALUE = 60

/** Before anything is recovered, so that the segments of the backup already are as they should be. */
export async function alignConfig(
  { source, name }: Wanted,
  { config }: Pick<LiveCollection, 'config'>,
  work: Work,
): Promise<void> {
  const { log, signal } = work.tools
  const body = patchBody(differences(source.config, config))
  if (body === undefined) return
  log.info({ collection: name, parts: Object.keys(body) }, 'sets the configuration of the backup')
  try {
    await patiently(work, () => collectionsOn(work, 0).patchCollection(name, body, signal))
  } catch (error) {
    // What the engine refuses stays different, and is named at the end.
    if (!(error instanceof EngineError) || ![400, 422].includes(error.status ?? 0)) throw error
    log.warn({ collection: name, reason: error.message }, 'configuration refused')
  }
}

/** Names in a note what is not as in the backup, the payload indexes included. */
export async function noteDifferences({ source, name }: Wanted, work: Work): Promise<void> {
  const { signal } = work.tools
  const live = await patiently(work, () => recoveryOn(work, 0).collection(name, signal))
  if (live === undefined) return
  const found = [
    ...differences(source.config, live.config).map(inWords),
    ...indexDifferences(source.payloadIndexes, live.payload_schema ?? {}),
  ]
  if (found.length === 0) return
  const more = found.length > MAX_NAMED ? ` and ${found.length - MAX_NAMED} more` : ''
  work.tally.note(
    `${name} differs from the backup in ${found.slice(0, MAX_NAMED).join(', ')}${more}`,
  )
}

export function differences(recorded: Config, live: Config): Difference[] {
  const byPath = (settings: Setting[]) =>
    new Map(settings.map((setting) => [JSON.stringify(setting.path), setting]))
  const [then, now] = [byPath(settingsOf(recorded)), byPath(settingsOf(live))]
  return [...new Set([...then.keys(), ...now.keys()])].flatMap((key) => {
    const setting = then.get(key) ?? now.get(key)
    const [wanted, found] = [then.get(key)?.value, now.get(key)?.value]
    if (setting === undefined) return []
    if (wanted === undefined && setting.isOpen === true) return []
    if (isDeepStrictEqual(withoutNull(wanted), withoutNull(found))) return []
    const { path, patch, unset } = setting
    const value = withoutNull(wanted) ?? unset
    const change = patch !== undefined && value !== undefined && { patch: { path: patch, value } }
    return [{ path, recorded: wanted, live: found, ...change }]
  })
}

/** Undefined where there is nothing that a PATCH could change. */
export function patchBody(found: Difference[]): CollectionBody | undefined {
  const patches = found.flatMap(({ patch }) => (patch === undefined ? [] : [patch]))
  return patches.length === 0 ? undefined : assembled(patches)
}

function settingsOf({ params, ...parts }: Config): Setting[] {
  const vectors = own(params, 'vectors')
  return [
    ...['write_consistency_factor', 'on_disk_payload'].map((name) => param(params, name)),
    ...['read_fan_out_factor', 'read_fan_out_delay_ms'].map((name) => param(params, name)),
    ...leaves(parts['hnsw_config'], ['hnsw_config'], ['hnsw_config'], { isOpen: true }),
    ...leaves(parts['optimizer_config'], ['optimizer_config'], ['optimizers_config'], {
      isOpen: true,
    }).map(withAuto),
    ...leaves(parts['wal_config'], ['wal_config'], undefined, { isOpen: true }),
    quantization(parts['quantization_config'], [], []),
    ...leaves(parts['strict_mode_config'], ['strict_mode_config'], ['strict_mode_config']).map(
      (setting) => (setting.path[1] === 'enabled' ? { ...setting, unset: false } : setting),
    ),
    ...leaves(parts['metadata'], ['metadata'], ['metadata'], { unset: null }),
    ...named(vectors).flatMap(([name, vector]) => ofVector(vector, name, vectors)),
    ...named(own(params, 'sparse_vectors')).flatMap(([name, vector]) => ofSparse(vector, name)),
  ]
}

function param(params: Plain, name: string): Setting {
  return { path: ['params', name], value: own(params, name), patch: ['params', name] }
}

/** An object with a number as `size` is the one unnamed vector, which PATCH calls "". */
function named(vectors: unknown): [string, Plain][] {
  if (!isPlain(vectors)) return []
  if (typeof own(vectors, 'size') === 'number') return [['', vectors]]
  return Object.entries(vectors).flatMap(([name, one]) => (isPlain(one) ? [[name, one]] : []))
}

function ofVector(vector: Plain, name: string, all: unknown): Setting[] {
  const isSingle = typeof own(all, 'size') === 'number'
  const path = ['params', 'vectors', ...(isSingle ? [] : [name])]
  const patch = ['vectors', name]
  return [
    { path: [...path, 'on_disk'], value: own(vector, 'on_disk'), patch: [...patch, 'on_disk'] },
    ...leaves(own(vector, 'hnsw_config'), [...path, 'hnsw_config'], [...patch, 'hnsw_config']),
    quantization(own(vector, 'quantization_config'), path, patch),
  ]
}

function ofSparse(vector: Plain, name: string): Setting[] {
  const path = ['params', 'sparse_vectors', name]
  const patch = ['sparse_vectors', name]
  return [
    { path: [...path, 'modifier'], value: own(vector, 'modifier'), patch: [...patch, 'modifier'] },
    ...leaves(own(vector, 'index'), [...path, 'index'], [...patch, 'index']),
  ]
}

/** Replaced as a whole. */
function quantization(value: unknown, path: string[], patch: string[]): Setting {
  const name = 'quantization_config'
  return { path: [...path, name], value, patch: [...patch, name], unset: 'Disabled' }
}

/** Each value of an object by itself. */
function leaves(
  value: unknown,
  path: string[],
  patch: string[] | undefined,
  more: Pick<Setting, 'unset' | 'isOpen'> = {},
): Setting[] {
  if (!isPlain(value)) return []
  return Object.entries(value).map(([name, one]) => ({
    path: [...path, name],
    value: one,
    ...(patch !== undefined && { patch: [...patch, name] }),
    ...more,
  }))
}

/** The engine shows null for what PATCH calls "auto". */
function withAuto(setting: Setting): Setting {
  return setting.path[1] === 'max_optimization_threads' ? { ...setting, unset: 'auto' } : setting
}

function indexDifferences(
  recorded: ManifestCollection['payloadIndexes'],
  live: NonNullable<LiveCollection['payload_schema']>,
): string[] {
  return [...new Set([...Object.keys(recorded), ...Object.keys(live)])].flatMap((field) => {
    const [wanted, found] = [own(recorded, field), own(live, field)]
    const index = `the payload index of ${JSON.stringify(field)}`
    if (found === undefined) return [`${index} (missing)`]
    if (wanted === undefined) return [`${index} (not in the backup)`]
    const isSame =
      own(wanted, 'dataType') === own(found, 'data_type') &&
      isDeepStrictEqual(withoutNull(own(wanted, 'params')), withoutNull(own(found, 'params')))
    return isSame ? [] : [`${index} (another one)`]
  })
}

function inWords({ path, recorded, live }: Difference): string {
  return `${path.join('.')} (${short(live)}, not ${short(recorded)})`
}

function short(value: unknown): string {
  const text = JSON.stringify(value ?? null)
  return text.length <= MAX_VALUE ? text : `${text.slice(0, MAX_VALUE)}…`
}

/** What is null is unset, at any depth, and so is an object without anything set. */
function withoutNull(value: unknown): unknown {
  if (value === null) return undefined
  if (!isPlain(value)) return value
  const entries = Object.entries(value)
    .map(([name, one]) => [name, withoutNull(one)] as const)
    .filter(([, one]) => one !== undefined)
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
