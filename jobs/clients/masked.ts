/** Texts for logs and messages, without what an address may carry besides the way: a password, a signature. */

/** `user:password@` of a URL. */
const USER = /(?<=:\/\/)[^/\s@"']+@/g
/** What makes a presigned URL worth stealing. */
const SIGNED = /((?:X-Amz-)?(?:Signature|Credential|Security-Token)=)[^&\s"']+/gi

export function masked(text: string): string {
  return text.replace(USER, '***@').replace(SIGNED, '$1***')
}
