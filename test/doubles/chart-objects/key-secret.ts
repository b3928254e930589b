/** The Secret with the keys the pods run: given, generated once and kept, or copied from another Secret. */
import { randomBytes } from 'node:crypto'
import type { ChartValues } from './values.ts'

/** Secrets of the namespace by name, their data in base64: what the chart can look up. */
export type Secrets = Record<string, Record<string, string> | undefined>

/** Data of the Secret in base64. A key that cannot be found is left out, and the engine is open then. */
export function keyData(
  values: ChartValues,
  own: string,
  secrets: Secrets,
): Record<string, string> {
  const full = keyOf(values.apiKey, secrets[own]?.['api-key'], secrets)
  const readOnly = keyOf(values.readOnlyApiKey, secrets[own]?.['read-only-api-key'], secrets)
  const lines = [
    ...(full === '' ? [] : [`  api_key: ${full}`]),
    ...(readOnly === '' ? [] : [`  read_only_api_key: ${readOnly}`]),
  ]
  return {
    ...(full !== '' && { 'api-key': base64(full) }),
    ...(readOnly !== '' && { 'read-only-api-key': base64(readOnly) }),
    ...(lines.length > 0 && { 'local.yaml': base64(['service:', ...lines].join('\n')) }),
  }
}

/** Whether the chart renders the Secret at all. */
export function wantsKeys({ apiKey, readOnlyApiKey }: ChartValues): boolean {
  return [apiKey, readOnlyApiKey].some(
    (key) => key === true || (typeof key === 'string' && key !== '') || isFilled(key),
  )
}

function isFilled(key: ChartValues['apiKey']): boolean {
  return typeof key === 'object' && key !== null && Object.keys(key).length > 0
}

function keyOf(
  requested: ChartValues['apiKey'],
  existing: string | undefined,
  secrets: Secrets,
): string {
  if (requested === true) return existing === undefined ? generated() : plain(existing)
  if (typeof requested === 'string') return requested
  if (typeof requested !== 'object' || requested?.valueFrom === undefined) return ''
  const { name, key } = requested.valueFrom.secretKeyRef
  return plain(secrets[name]?.[key] ?? '')
}

function generated(): string {
  return randomBytes(48)
    .toString('base64')
    .replace(/[^A-Za-z0-9]/g, '')
    .slice(0, 32)
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}

function plain(text: string): string {
  return Buffer.from(text, 'base64').toString()
}
