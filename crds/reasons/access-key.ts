/** Reasons of a VecAccessKey's conditions and Events. */
import { NOTHING_TO_DO, NOT_WATCHED, type Reason } from './reason.ts'

const NOT_READY = { type: 'Ready', status: 'False' } as const

export const ACCESS_KEY_REASONS: readonly Reason[] = [
  {
    reason: 'TokenIssued',
    condition: { type: 'Ready', status: 'True' },
    event: 'Normal',
    messages: ['Secret <name> holds a current token'],
    cause: 'The Secret holds a token that is valid until status.expiresAt.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'SecretNotWritten',
    condition: NOT_READY,
    messages: [
      'Secret <name> is being written',
      'Secret <name> could not be created: kubectl describe vecaccesskey <name> -n <namespace> shows the cause in an Event, such as a quota or an admission webhook',
    ],
    cause:
      'A token was signed, and Metacontroller is writing the Secret, or the API server refuses it.',
    fix: 'Nothing, or what the Event says. If it lasts, check that Metacontroller may write Secrets.',
  },
  {
    reason: 'SecretNotOurs',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'Secret <name> already exists and is not owned by this VecAccessKey: delete it, or use another spec.secretName',
    ],
    cause: 'A Secret with this name was not created for this resource. It is never changed.',
    fix: 'Delete the Secret, or create another VecAccessKey with a different spec.secretName, which is immutable.',
  },
  {
    reason: 'ClusterNotFound',
    condition: NOT_READY,
    messages: ['cluster <namespace>/<name> not found'],
    cause: 'There is no VecCluster that spec.clusterRef names. An existing token is kept.',
    fix: 'Create the VecCluster. spec.clusterRef is immutable: a wrong name requires a new VecAccessKey.',
  },
  {
    reason: 'ClusterNotServed',
    condition: NOT_READY,
    messages: [NOT_WATCHED],
    cause:
      'The operator watches only some namespaces, and the namespace of the cluster is not one of them.',
    fix: 'Add the namespace to the chart value operator.namespaces. An existing token is kept.',
  },
  {
    reason: 'RefNotPermitted',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster',
      'cluster <namespace>/<name> does not allow namespace <namespace>: add it to the annotation vec-operator.dev/allowed-namespaces of the cluster, or set the chart value crossNamespace to open',
    ],
    cause: 'The cluster is in another namespace and does not allow this one to use it.',
    fix: 'Add this namespace to the annotation vec-operator.dev/allowed-namespaces of the VecCluster, or install with crossNamespace: open. The Secret with the token was deleted; rotate the key of the cluster if the token may have been copied.',
  },
  {
    reason: 'ApiKeyMissing',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['cluster <namespace>/<name> has no apiKey to sign with'],
    cause: 'Tokens are signed with the API key of the cluster, which has none.',
    fix: 'Set spec.apiKey.autoGenerate or spec.apiKey.secretRef on the VecCluster.',
  },
  {
    reason: 'JwtRbacDisabled',
    condition: NOT_READY,
    event: 'Warning',
    messages: ['cluster <namespace>/<name> has apiKey.jwtRbac false'],
    cause: 'The engine does not accept tokens.',
    fix: 'Set spec.apiKey.jwtRbac: true on the VecCluster.',
  },
  {
    reason: 'JwtRbacNotApplied',
    condition: NOT_READY,
    messages: ['no helm run of cluster <namespace>/<name> has applied apiKey.jwtRbac yet'],
    cause:
      'spec.apiKey.jwtRbac of the VecCluster has been set, and the helm run that configures the nodes has not succeeded yet: the engine refuses tokens. An existing token is kept.',
    fix: 'Nothing while a helm run is in progress; otherwise check the condition Applied of the VecCluster.',
  },
  {
    reason: 'SecretNotFound',
    condition: NOT_READY,
    messages: ['Secret <namespace>/<name> not found', 'the signing key does not exist yet'],
    cause: 'The first helm run of the cluster has not created its API key yet.',
    fix: 'Nothing while the cluster is being installed; otherwise check the VecCluster.',
  },
  {
    reason: 'ApiKeyNotReported',
    condition: NOT_READY,
    messages: ['no helm run of cluster <namespace>/<name> has reported its API key yet'],
    cause:
      'The first helm run of the cluster is in progress, or one that changes the key. An existing token is kept.',
    fix: 'Nothing while a helm run is in progress; otherwise check the VecCluster.',
  },
  {
    reason: 'ForeignApiKey',
    condition: NOT_READY,
    event: 'Warning',
    messages: [
      'no helm run has published the key in Secret <namespace>/vec-<name>-apikey: no token is signed with it',
    ],
    cause:
      'Another client wrote that Secret. Nodes refuse tokens of its key, so an existing token is kept.',
    fix: 'Keep other clients from writing the Secret. With spec.apiKey.rotation or spec.apiKey.secretRef of the VecCluster, a helm run writes the right key again, at most once in five minutes. Without rotation, a pod that started meanwhile keeps the other key: set another value of the annotation vec-operator.dev/restart. If the key is generated, that also makes the helm run take over the key that is there.',
  },
  {
    reason: 'ShortApiKey',
    event: 'Warning',
    messages: ['the signing key has <n> bytes; use at least 32'],
    cause: 'A short key can be found by brute force from any token that it signed.',
    fix: 'Replace the API key of the cluster with a longer one. The token is then reissued automatically.',
  },
]
