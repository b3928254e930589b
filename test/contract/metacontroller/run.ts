/** Plays one case on a subject, and keeps what the real one did in recorded/. */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Case } from './setting.ts'
import { Stage } from './stage.ts'
import type { Subject } from './subject.ts'

const FOLDER = join(import.meta.dirname, 'recorded')

/** What the case noted. The namespace has to be one that was never used on this API server. */
export async function play(subject: Subject, played: Case, namespace: string): Promise<unknown> {
  const stage = await Stage.open(subject, namespace, played.setting)
  try {
    await played.play(stage)
    return JSON.parse(JSON.stringify(stage.notes))
  } finally {
    await stage.close()
  }
}

/** What the case has to note. */
export function recording({ title, expected }: Case): unknown {
  const file = fileOf(title)
  if (!existsSync(file)) return expected
  return (JSON.parse(readFileSync(file, 'utf8')) as { notes: unknown }).notes
}

/** The versions of Metacontroller in all recordings. */
export function recordedVersions(): Set<unknown> {
  const files = readdirSync(FOLDER).map((name) => readFileSync(join(FOLDER, name), 'utf8'))
  return new Set(files.map((text) => (JSON.parse(text) as { version?: unknown }).version))
}

export function record({ title }: Case, version: string, notes: unknown): void {
  mkdirSync(FOLDER, { recursive: true })
  writeFileSync(fileOf(title), `${JSON.stringify({ title, version, notes }, undefined, 2)}\n`)
}

function fileOf(title: string): string {
  return join(FOLDER, `${title.toLowerCase().replace(/[^a-z0-9]+/g, '-')}.json`)
}
