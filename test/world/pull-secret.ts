/** The image pull Secret that the operator of every world is installed with. No registry asks for it. */
export const PULL_SECRET = 'registry'

/** Random for each test run, so that no other text contains it by chance. */
const AUTH = Buffer.from(`pull:${crypto.randomUUID()}`).toString('base64')

export function pullSecret(namespace: string) {
  const content = JSON.stringify({ auths: { 'registry.example.com': { auth: AUTH } } })
  return {
    apiVersion: 'v1' as const,
    kind: 'Secret' as const,
    metadata: { name: PULL_SECRET, namespace },
    type: 'kubernetes.io/dockerconfigjson',
    data: { '.dockerconfigjson': Buffer.from(content).toString('base64') },
  }
}
