/** The real helm, where this machine has one: for tests that render our chart outside the cluster suite. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { builtTool } from '../cluster/tools.ts'

/** What a test that cannot run without helm says. */
export const NO_HELM = 'no helm: HELM names none, and the cluster suite has not built one here'

export const CHART = join(import.meta.dirname, '../../chart')

/** The one that HELM names, else the one the cluster suite built. */
export function findHelm(): string | undefined {
  const { HELM } = process.env
  if (HELM !== undefined && HELM !== '') return HELM
  return builtTool('helm')
}

/** A program that a variable names, else the one on PATH. */
export function program(variable: string, name: string): string | undefined {
  const named = process.env[variable] ?? ''
  if (named !== '') return named
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path))
}

export async function runHelm(helm: string, args: string[]): Promise<string> {
  return (await promisify(execFile)(helm, args)).stdout
}

/** What helm printed when it refused. */
export function said(error: unknown): string {
  const { stderr = '', message = '' } = error as { stderr?: string; message?: string }
  return (stderr === '' ? message : stderr).trim()
}
