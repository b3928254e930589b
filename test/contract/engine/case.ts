/** A case of the contract, and the file with its recording. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Stage } from './stage.ts'
import type { Service, Setting, Size, Subject } from './subject.ts'

export interface Case {
  /** A sentence about the engine. */
  title: string
  /** Default: one node and three. */
  sizes?: readonly Size[]
  /** The `service` part of the configuration. */
  service?: Service
  /** Environment variables of the engine. */
  env?: Readonly<Record<string, string>>
  /** cluster.resharding_enabled */
  resharding?: boolean
  /** The double applies writes of clients that do not wait this much later. */
  applyMs?: number
  /** It removes a node: no other case can be played on the same engine. */
  changesPeers?: boolean
  play(stage: Stage): Promise<void>
}

const FOLDER = join(import.meta.dirname, 'recorded')

export function sizesOf({ sizes = ['one', 'three'] }: Case): readonly Size[] {
  return sizes
}

export function settingOf(
  { service = {}, env = {}, resharding = false, applyMs = 0 }: Case,
  size: Size,
): Setting {
  return { size, service, env, resharding, applyMs }
}

/** What the case noted. */
export async function play(subject: Subject, setting: Setting, played: Case): Promise<unknown> {
  const stage = new Stage(subject, setting)
  await stage.learnPeers()
  try {
    await played.play(stage)
    return JSON.parse(JSON.stringify(stage.notes))
  } finally {
    await stage.clear()
  }
}

/** What the real engine was seen to do, by size. */
export function recording(played: Case): Partial<Record<Size, unknown>> {
  const file = fileOf(played)
  if (!existsSync(file)) return {}
  return (JSON.parse(readFileSync(file, 'utf8')) as { notes: Partial<Record<Size, unknown>> }).notes
}

export function record(played: Case, size: Size, version: string, notes: unknown): void {
  mkdirSync(FOLDER, { recursive: true })
  const { title } = played
  const reduced = { ...recording(played), [size]: notes }
  const sizes = sizesOf(played).filter((name) => reduced[name] !== undefined)
  const content = {
    title,
    version,
    notes: Object.fromEntries(sizes.map((name) => [name, reduced[name]])),
  }
  writeFileSync(fileOf(played), `${JSON.stringify(content, undefined, 2)}\n`)
}

function fileOf({ title }: Case): string {
  return join(FOLDER, `${title.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.json`)
}
