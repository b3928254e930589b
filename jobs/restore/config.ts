/**
 * Configuration of an existing collection that is restored over: applies the configuration of the
 * backup as far as the engine can change it, and reports the remaining differences in a note.
 */
import { EngineError } from '../../crds/contract/errors.ts'
import type { ManifestCollection } from '../../crds/contract/manifest.ts'
import { canonicalConfig } from '../canonical-config.ts'
import type { CollectionBody } from '../../crds/engine/collections.ts'
import { formatNames, formatValue } from '../../crds/units.ts'
import {
  fromPaths,
  isPlainObject,
  isSameJson,
  ownValue,
  type PlainObject,
} from '../../crds/engine/plain-object.ts'
import type { RestoreCollectionInfo } from '../clients/engine/responses.ts'
import { isSameIndex, withoutNull } from '../payload-indexes.ts'
import { retryTransient } from '../retry.ts'
import { changeCollection } from './change-collection.ts'
import { collectionsForPod, recoveryForPod, type RunContext } from './context.ts'
import type { RestoreItem } from '../manifest-check.ts'

/** Configuration as the engine returns it. The parts other than `params` are read one by one. */
export type Config = ManifestCollection['config'] & PlainObject

/**
 * One value: its path in the configuration and, if PATCH can change it, its path in the body of
 * PATCH.
 */
interface Setting {
  path: string[]
  value: unknown
  patch?: string[]
  /** Value for PATCH if the backup does not have this setting. */
  unset?: unknown
  /**
   * A newer engine may return additional settings here: a setting that the backup does not have is
   * not a difference.
   */
  isOpen?: true
}

export interface Difference {
  path: string[]
  recorded: unknown
  live: unknown
  patch?: { path: string[]; value: unknown }
}

/** Maximum number of differences listed in a note. */
const MAX_NAMED = 5

/** Runs before any recovery, so that the recovered segments already get the right configuration. */
export async function applyConfig(
  { source, name }: RestoreItem,
  { config }: Pick<RestoreCollectionInfo, 'config'>,
  context: RunContext,
): Promise<void> {
  const { log, signal } = context.tools
  const body = patchBody(differences(source.config, config))
  if (body === undefined) return
  log.info(
    { collection: name, parts: Object.keys(body) },
    'applying the configuration of the backup',
  )
  try {
    await changeCollection(name, context, () =>
      collectionsForPod(context, 0).patchCollection(name, body, signal),
    )
  } catch (error) {
    // Settings that the engine rejects stay different; `noteDifferences` reports them at the end.
    if (!(error instanceof EngineError) || ![400, 422].includes(error.status ?? 0)) throw error
    log.warn({ collection: name, reason: error.message }, 'configuration rejected')
  }
}

/** Reports the differences from the backup in a note, including those of payload indexes. */
export async function noteDifferences(
  { source, name }: RestoreItem,
  context: RunContext,
): Promise<void> {
  const { signal } = context.tools
  const live = await retryTransient(context, () =>
    recoveryForPod(context, 0).collection(name, signal),
  )
  if (live === undefined) return
  const differing = [
    ...differences(source.config, live.config).map(formatDifference),
    ...indexDifferences(source.payloadIndexes, live.payload_schema ?? {}),
  ]
  if (differing.length === 0) return
  context.progress.note(`${name} differs from the backup in ${formatNames(differing, MAX_NAMED)}`)
}

export function differences(recorded: Config, live: Config): Difference[] {
  const byPath = (settings: Setting[]) =>
    new Map(settings.map((setting) => [JSON.stringify(setting.path), setting]))
  const [recordedSettings, liveSettings] = [
    byPath(flattenSettings(canonicalConfig(recorded))),
    byPath(flattenSettings(canonicalConfig(live))),
  ]
  return [...new Set([...recordedSettings.keys(), ...liveSettings.keys()])].flatMap((key) => {
    const setting = recordedSettings.get(key) ?? liveSettings.get(key)
    const [expected, actual] = [recordedSettings.get(key)?.value, liveSettings.get(key)?.value]
    if (setting === undefined) return []
    if (expected === undefined && setting.isOpen === true) return []
    if (isSameJson(withoutNull(expected), withoutNull(actual))) return []
    const { path, patch, unset } = setting
    const value = withoutNull(expected) ?? unset
    const change = patch !== undefined && value !== undefined && { patch: { path: patch, value } }
    return [{ path, recorded: expected, live: actual, ...change }]
  })
}

/** Undefined if PATCH can change none of the differences. */
export function patchBody(diffs: Difference[]): CollectionBody | undefined {
  const patches = diffs.flatMap(({ patch }) => (patch === undefined ? [] : [patch]))
  return patches.length === 0 ? undefined : fromPaths(patches)
}

function flattenSettings({ params, ...parts }: Config): Setting[] {
  const vectors = ownValue(params, 'vectors')
  return [
    ...['write_consistency_factor', 'on_disk_payload'].map((name) => paramSetting(params, name)),
    ...['read_fan_out_factor', 'read_fan_out_delay_ms'].map((name) => paramSetting(params, name)),
    // Since engine 1.19; it wins over on_disk_payload.
    ...leafSettings(ownValue(params, 'payload'), ['params', 'payload'], ['params', 'payload']),
    ...leafSettings(parts['hnsw_config'], ['hnsw_config'], ['hnsw_config'], { isOpen: true }),
    ...leafSettings(parts['optimizer_config'], ['optimizer_config'], ['optimizers_config'], {
      isOpen: true,
    }).map(withAuto),
    ...leafSettings(parts['wal_config'], ['wal_config'], undefined, { isOpen: true }),
    quantizationSetting(parts['quantization_config'], [], []),
    ...leafSettings(
      parts['strict_mode_config'],
      ['strict_mode_config'],
      ['strict_mode_config'],
    ).map((setting) => (setting.path[1] === 'enabled' ? { ...setting, unset: false } : setting)),
    ...leafSettings(parts['metadata'], ['metadata'], ['metadata'], { unset: null }),
    ...namedVectors(vectors).flatMap(([name, vector]) => vectorSettings(vector, name, vectors)),
    ...namedVectors(ownValue(params, 'sparse_vectors')).flatMap(([name, vector]) =>
      sparseVectorSettings(vector, name),
    ),
  ]
}

function paramSetting(params: PlainObject, name: string): Setting {
  return { path: ['params', name], value: ownValue(params, name), patch: ['params', name] }
}

/** An object with a numeric `size` is the single unnamed vector, which PATCH calls "". */
function namedVectors(vectors: unknown): [string, PlainObject][] {
  if (!isPlainObject(vectors)) return []
  if (typeof ownValue(vectors, 'size') === 'number') return [['', vectors]]
  return Object.entries(vectors).filter((entry): entry is [string, PlainObject] =>
    isPlainObject(entry[1]),
  )
}

function vectorSettings(vector: PlainObject, name: string, vectors: unknown): Setting[] {
  const isSingle = typeof ownValue(vectors, 'size') === 'number'
  const path = ['params', 'vectors', ...(isSingle ? [] : [name])]
  const patch = ['vectors', name]
  return [
    // `memory` since engine 1.19; it wins over on_disk.
    ...['on_disk', 'memory'].map((field) => ({
      path: [...path, field],
      value: ownValue(vector, field),
      patch: [...patch, field],
    })),
    ...leafSettings(
      ownValue(vector, 'hnsw_config'),
      [...path, 'hnsw_config'],
      [...patch, 'hnsw_config'],
    ),
    quantizationSetting(ownValue(vector, 'quantization_config'), path, patch),
  ]
}

function sparseVectorSettings(vector: PlainObject, name: string): Setting[] {
  const path = ['params', 'sparse_vectors', name]
  const patch = ['sparse_vectors', name]
  return [
    {
      path: [...path, 'modifier'],
      value: ownValue(vector, 'modifier'),
      patch: [...patch, 'modifier'],
    },
    ...leafSettings(ownValue(vector, 'index'), [...path, 'index'], [...patch, 'index']),
  ]
}

/** One setting, because the engine replaces it as a whole. */
function quantizationSetting(value: unknown, path: string[], patch: string[]): Setting {
  const name = 'quantization_config'
  return { path: [...path, name], value, patch: [...patch, name], unset: 'Disabled' }
}

/** One setting for each value of an object. */
function leafSettings(
  value: unknown,
  path: string[],
  patch: string[] | undefined,
  options: Pick<Setting, 'unset' | 'isOpen'> = {},
): Setting[] {
  if (!isPlainObject(value)) return []
  return Object.entries(value).map(([name, child]) => ({
    path: [...path, name],
    value: child,
    ...(patch !== undefined && { patch: [...patch, name] }),
    ...options,
  }))
}

/** The engine returns null where PATCH expects "auto". */
function withAuto(setting: Setting): Setting {
  return setting.path[1] === 'max_optimization_threads' ? { ...setting, unset: 'auto' } : setting
}

/** One text for each payload index that is missing, is not in the backup, or has another type or parameters. */
export function indexDifferences(
  recorded: ManifestCollection['payloadIndexes'],
  live: NonNullable<RestoreCollectionInfo['payload_schema']>,
): string[] {
  return [...new Set([...Object.keys(recorded), ...Object.keys(live)])].flatMap((field) => {
    const expected = Object.hasOwn(recorded, field) ? recorded[field] : undefined
    const actual = ownValue(live, field)
    const index = `the payload index of ${JSON.stringify(field)}`
    if (actual === undefined) return [`${index} (missing)`]
    if (expected === undefined) return [`${index} (not in the backup)`]
    return isSameIndex(expected, actual) ? [] : [`${index} (another one)`]
  })
}

function formatDifference({ path, recorded, live }: Difference): string {
  return `${path.join('.')} (${formatValue(live)}, not ${formatValue(recorded)})`
}
