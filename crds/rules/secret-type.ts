/** Which Secrets hold no credentials of a bucket or an engine, whatever their keys are called. */

/** What Kubernetes and Helm keep in Secrets of these types is never such a credential. */
const OTHER_TYPES =
  /^(kubernetes\.io\/(service-account-token|dockercfg|dockerconfigjson|ssh-auth)|bootstrap\.kubernetes\.io\/token|helm\.sh\/.*)$/

/**
 * A resource names the Secret and the address it is sent to, and its author may not be allowed to read
 * Secrets. Of a TLS Secret the certificates may be used, the private key not.
 */
export function isCredentialType(type: string, keys: readonly string[]): boolean {
  const isCertificate = keys.every((key) => ['ca.crt', 'tls.crt'].includes(key))
  return !OTHER_TYPES.test(type) && (type !== 'kubernetes.io/tls' || isCertificate)
}
