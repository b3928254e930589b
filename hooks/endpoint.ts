/** Addresses that the schema admits and no client can call, such as one with a space that is not ASCII. */
import type { Lack } from './lack.ts'

/** Why the address in a field cannot be used; undefined where it can, or where there is none. */
export function endpointLack(field: string, address: string | undefined): Lack | undefined {
  if (address === undefined || URL.canParse(address)) return undefined
  return {
    reason: 'EndpointNotUsable',
    // Quoted: what is wrong with it may be invisible.
    message: `${field} is not an address: ${quoted(address)}`,
    isRefusal: true,
    isShown: true,
  }
}

/** With every character that is not printable ASCII as an escape. */
function quoted(text: string): string {
  const escaped = (character: string) =>
    `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`
  return JSON.stringify(text.slice(0, 200)).replaceAll(/[^ -~]/g, escaped)
}
