/** Removes credentials from texts that are logged or reported: passwords in URLs, and the signatures of presigned URLs. */
import { trimTrailing } from '../../../crds/contract/names.ts'

/** `user:password@` of a URL. */
const USER_INFO = /(?<=:\/\/)[^/\s@"']+@/g
/** The parameters that make a presigned URL a credential. */
const SIGNATURE_PARAMETERS = /((?:X-Amz-)?(?:Signature|Credential|Security-Token)=)[^&\s"']+/gi

export function redact(text: string): string {
  return text.replace(USER_INFO, '***@').replace(SIGNATURE_PARAMETERS, '$1***')
}

/** Removes the query of every URL in the text: in a presigned URL it is a credential. */
export function stripQuery(text: string): string {
  return text.replace(/(https?:\/\/[^\s?"'<>]*)\?[^\s"'<>]*/gi, (match, address: string) => {
    const end = match.slice(trimTrailing(match, ')]:,.;').length)
    return `${address}${end}`
  })
}
