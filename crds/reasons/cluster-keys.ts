/** Reasons of the conditions KeyRotated and CertificateInUse, and of a helm run whose keys have changed. */
import { NOTHING_TO_DO, type Reason } from './reason.ts'

const ROTATING = { type: 'KeyRotated', status: 'False' } as const
const RENEWED = { type: 'CertificateInUse', status: 'False' } as const
const FORMER_CERTIFICATE =
  'Secret <name> has another certificate: nodes that were not restarted since then use the former one for <connections> until it expires'
const CERTIFICATE_EFFECT =
  'HTTPS uses the renewed certificate within an hour; gRPC and the connections between nodes use it after a restart. Once the former one expires, gRPC clients and, with p2p TLS, the other nodes refuse it.'
const RESTART_NODES =
  'Restart the nodes before the former certificate expires: `kubectl annotate --overwrite qc <name> vec-operator.dev/restart="$(date +%s)"`.'

export const KEY_REASONS: readonly Reason[] = [
  {
    reason: 'KeyCurrent',
    condition: { type: 'KeyRotated', status: 'True' },
    event: 'Normal',
    messages: ['the API key of the spec is the only one'],
    cause:
      'With spec.apiKey.rotation: no other key is accepted. After a rotation, every node has refused the former key.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'AddingKey',
    condition: ROTATING,
    event: 'Normal',
    messages: [
      'nodes get the new key in addition to the published one; <n> of <n> nodes accept the new key',
      'nodes get the new key in addition to the published one; <n> of <n> nodes accept the new key, no answer from node <nodes>',
      'nodes get the new key in addition to the published one; no node was asked yet',
      'nodes get the new key in addition to the published one; querying the nodes failed: <error>',
      'the new key waits for the update: version <version> accepts one key only',
    ],
    cause:
      'The Secret in spec.apiKey.secretRef has another key. Until every node accepts it, clients call with the former one.',
    fix: 'Nothing. If it lasts, see the conditions Applied and Progressing.',
  },
  {
    reason: 'PublishingKey',
    condition: ROTATING,
    event: 'Normal',
    messages: ['all nodes accept both keys; the new one is published'],
    cause: 'A helm run writes the new key into the Secret vec-<name>-apikey.',
    fix: NOTHING_TO_DO,
  },
  {
    reason: 'FormerKeyAccepted',
    condition: ROTATING,
    event: 'Normal',
    messages: [
      'nodes accept the former key until <time>; the published one is in Secret vec-<name>-apikey',
      'nodes accept the former key until <time>; the published one is in Secret vec-<name>-apikey; then they get the new key',
    ],
    cause:
      'The new key is published, and spec.apiKey.rotation.overlap has not passed yet. A key that was written meanwhile waits: nodes accept two keys only.',
    fix: 'Change clients to the published key. To remove a leaked key at once, remove spec.apiKey.rotation.',
  },
  {
    reason: 'TokensNotRenewed',
    condition: ROTATING,
    event: 'Warning',
    messages: [
      'the former key is kept: it has signed the current token of VecAccessKey <names>',
      'the former key is kept: VecAccessKeys cannot be listed',
    ],
    cause:
      'Nodes that lose the former key refuse the tokens that it has signed. The new token of a VecAccessKey was not written, or the service may not list VecAccessKeys.',
    fix: 'See the condition Ready of the VecAccessKey; delete it if no client uses it. Update the chart if VecAccessKeys cannot be listed.',
  },
  {
    reason: 'RemovingKey',
    condition: ROTATING,
    event: 'Normal',
    messages: [
      'nodes lose the former key; <n> of <n> nodes accept it',
      'nodes lose the former key; <n> of <n> nodes accept it, no answer from node <nodes>',
      'nodes lose the former key; no node was asked yet',
      'nodes lose the former key; querying the nodes failed: <error>',
    ],
    cause: 'The overlap is over, or a key was taken back before it was published.',
    fix: 'Nothing. If it lasts, see the conditions Applied and Progressing.',
  },
  {
    reason: 'ForeignApiKey',
    condition: ROTATING,
    event: 'Warning',
    messages: [
      'no helm run has published the key in Secret vec-<name>-apikey: a helm run writes the published one again',
      'Secret vec-<name>-apikey has the published key again; no node was asked yet',
      'Secret vec-<name>-apikey has the published key again; querying the nodes failed: <error>',
      'Secret vec-<name>-apikey has the published key again; <n> of <n> nodes accept it',
    ],
    cause:
      'Another client wrote that Secret. Clients that read its key get 401. A pod that started meanwhile has it, and is restarted.',
    fix: 'Keep other clients from writing the Secret: a helm run writes it again at most once in five minutes.',
  },
  {
    reason: 'NoSecondKey',
    condition: ROTATING,
    event: 'Warning',
    messages: [
      'version <version> accepts one key only: nodes refuse the former key one by one; 1.17.0 and newer accept two',
    ],
    cause:
      'spec.apiKey.rotation has no effect on engines before 1.17.0, unless they are being updated to a newer one. Clients get 401 until the rollout is complete.',
    fix: 'Nothing. Update the engine before the next rotation.',
  },
  {
    reason: 'RestartDisabled',
    condition: RENEWED,
    event: 'Warning',
    messages: [
      `${FORMER_CERTIFICATE}; spec.tls.restartOnRenewal is false: to restart them one by one, set the annotation vec-operator.dev/restart to another value`,
    ],
    cause: CERTIFICATE_EFFECT,
    fix: `${RESTART_NODES} Without \`spec.tls.restartOnRenewal: false\` the operator does that after each renewal.`,
  },
  {
    reason: 'AuthorityChanged',
    condition: RENEWED,
    event: 'Warning',
    messages: [
      `${FORMER_CERTIFICATE}; its authorities have changed as well, so they are restarted only on request: set the annotation vec-operator.dev/restart to another value`,
    ],
    cause: `${CERTIFICATE_EFFECT} Nodes with the former and with the new certificate may not accept each other during the restart, so it waits for you.`,
    fix: `${RESTART_NODES} To change to another authority without that, add it to \`ca.crt\` first, and leave the former one there until every node has a certificate of the new one.`,
  },
  {
    reason: 'KeysChanged',
    condition: { type: 'Applied', status: 'False' },
    event: 'Warning',
    messages: [
      'Secret <name> has another key than when this run was planned',
      'Secret <name> already exists and was not created for this VecCluster: delete it',
      'the key <fingerprint> is in no Secret any more',
      'the pods get other keys than when this run was planned',
      'spec.<field>.secretRef: Secret <name> has no key <key> any more',
      'Secret <name> has no key after the helm run',
    ],
    cause:
      'A Secret with keys, or the keys of the pods, changed after the helm run was planned. helm did not run, and no key was published. The last message: helm has run without the Secret of the spec, and nodes that restart until the next run need no key.',
    fix: 'Nothing: the next run is planned for the present keys. Create the Secret of the spec again if it is missing. Delete the Secret that the message asks to delete.',
  },
]
