/** Reasons of a VecAccessKey's conditions and Events. */
import { NOTHING_TO_DO, NOT_WATCHED, type Reason } from './reason.ts'

const NOT_READY = { type: 'Ready', status: 'False' } as const

export const ACCESS_KEY_REASONS: readonly Reason[] = [
  {
    reason: 'TokenIssued',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['Secret <name> holds a current token'],
    cause: 'The Secret has a token that is good until status.expiresAt.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'SecretNotWritten',
    condition: NOT_READY,
    messages: ['Secret <name> is being written'],
    cause: 'A token was signed, and Metacontroller writes the Secret.',
    fix: 'Nothing; when it stays, look whether Metacontroller may write Secrets.',
  },
  {
    reason: 'SecretNotOurs',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['Secret <name> is there already and belongs to somebody else'],
    cause: 'A Secret of that name was not made for this resource; it is never touched.',
    fix: 'Delete or rename that Secret, or make the key with another spec.secretName.',
  },
  {
    reason: 'ClusterNotFound',
    condition: NOT_READY,
    messages: ['cluster <namespace>/<name> not found'],
    cause: 'There is no VecCluster that spec.clusterRef names. A token that was issued stays.',
    fix: 'Make the cluster; spec.clusterRef is immutable, so a wrong name needs a new resource.',
  },
  {
    reason: 'ClusterNotServed',
    condition: NOT_READY,
    messages: [NOT_WATCHED],
    cause:
      'The operator was told to serve some namespaces only, and that of the cluster is not one.',
    fix: 'Add it to the chart value operator.namespaces. A token that was issued stays meanwhile.',
  },
  {
    reason: 'RefNotPermitted',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster',
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allow-from of the cluster, or set the chart value crossNamespace to open',
    ],
    cause: 'The cluster is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to the annotation vec-operator.dev/allow-from of the VecCluster, or install with crossNamespace: open. The Secret with the token was deleted; rotate the key of the cluster if the token may have been copied.',
  },
  {
    reason: 'ApiKeyMissing',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['cluster <namespace>/<name> has no apiKey to sign with'],
    cause: 'Tokens are signed with the API key of the cluster, and it has none.',
    fix: 'Set spec.apiKey.autoGenerate or spec.apiKey.secretRef on the VecCluster.',
  },
  {
    reason: 'JwtRbacDisabled',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['cluster <namespace>/<name> has apiKey.jwtRbac false'],
    cause: 'The engine reads no tokens.',
    fix: 'Set spec.apiKey.jwtRbac: true on the VecCluster.',
  },
  {
    reason: 'SecretNotFound',
    condition: NOT_READY,
    messages: ['Secret <namespace>/<name> not found', 'there is no key to sign with yet'],
    cause: 'The first helm run of the cluster has not written its key yet.',
    fix: 'Nothing, if the cluster is on its way; else look at the VecCluster.',
  },
  {
    reason: 'ShortApiKey',
    event: 'Warning',
    messages: ['the signing key has <n> bytes; use at least 32'],
    cause: 'A short key can be guessed from any token it signed.',
    fix: 'Rotate the API key of the cluster to a longer one; the token is signed anew by itself.',
  },
]
