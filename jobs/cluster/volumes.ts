/**
 * Changes of the volumes of a cluster, while its pods run: larger sizes, and other VolumeAttributesClasses. What a
 * StorageClass does not allow is refused before helm runs, with the field and the class.
 * The claims of the pods are patched first. Then the StatefulSet, whose claim templates are immutable, is
 * replaced by one with the new templates that adopts the pods (stateful-set-replacement.ts): without that,
 * helm fails, and later nodes start with the former volumes. Every step reads what an earlier process has
 * done, so a killed Job is continued by the next one.
 */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { PlannedVolume, UpgradePlan } from '../../crds/contract/job.ts'
import { claimName } from '../../crds/contract/names.ts'
import { AnyObject, type StatefulSet, claimTemplate, templateSize } from '../../crds/kubernetes.ts'
import { parseQuantity } from '../../crds/units.ts'
import { persistentVolumeClaims } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'
import { poll } from '../retry.ts'
import { replaceStatefulSet, VolumesNotGrown } from './stateful-set-replacement.ts'

/** How long storage driver and kubelet may take for all volumes of a cluster. */
const CHANGE_TIMEOUT_MS = 600_000
const CHANGE_POLL_MS = 2_000

const storage = Type.Object({ storage: Type.Optional(Type.String()) })
const Claim = Type.Composite([
  AnyObject,
  Type.Object({
    spec: Type.Object({
      storageClassName: Type.Optional(Type.String()),
      volumeAttributesClassName: Type.Optional(Type.String()),
      resources: Type.Optional(Type.Object({ requests: Type.Optional(storage) })),
    }),
    status: Type.Optional(
      Type.Object({
        phase: Type.Optional(Type.String()),
        capacity: Type.Optional(storage),
        currentVolumeAttributesClassName: Type.Optional(Type.String()),
        modifyVolumeStatus: Type.Optional(Type.Object({ status: Type.Optional(Type.String()) })),
        conditions: Type.Optional(
          Type.Array(Type.Object({ type: Type.String(), message: Type.Optional(Type.String()) })),
        ),
      }),
    ),
  }),
])
type Claim = Static<typeof Claim>

/** Volumes of one claim template that the plan changes. */
interface VolumeChange extends PlannedVolume {
  template: string
  /** Size in the live claim template. */
  from: string
  /** VolumeAttributesClass in the live claim template. */
  fromClass: string | undefined
}

interface ClaimChange {
  change: VolumeChange
  claim: Claim
  /** Its pod exists: many file systems grow only while they are mounted. */
  hasPod: boolean
}

export interface VolumeViolation {
  reason: 'VolumeNotExpandable' | 'VolumeNotModifiable'
  message: string
}

/**
 * Gives the volumes the sizes and classes of the plan; does nothing if they have them. Returns why the plan
 * must not be applied, before anything is changed. Throws `VolumesNotGrown` for what may be different later.
 */
export async function changeVolumes(
  plan: UpgradePlan,
  live: StatefulSet,
  tools: Dependencies,
): Promise<VolumeViolation | undefined> {
  const changes = volumeChanges(plan, live)
  if (changes.length === 0) return undefined
  const shrinking = changes.find(({ from, size }) => parseQuantity(size) < parseQuantity(from))
  if (shrinking !== undefined) {
    const message = `${describeSize(shrinking)}: a volume cannot be made smaller: set spec.${shrinking.field}.size to ${shrinking.from}`
    return { reason: 'VolumeNotExpandable', message }
  }
  const claims = await readClaims(plan, live, { changes, tools })
  const requests = claims.filter((request) => isSmaller(request) || hasOtherClass(request))
  for (const request of requests) {
    const rejection = await dryRun(plan, request, tools)
    if (rejection !== undefined) return rejection
  }
  for (const request of requests) {
    const { claim, change } = request
    const { size, attributesClass } = change
    tools.log.info({ claim: claim.metadata.name, size, attributesClass }, 'changing a volume')
    await tools.kubernetes.patch(
      persistentVolumeClaims(plan.namespace),
      claim.metadata.name,
      claimPatch(request),
    )
  }
  await waitForVolumes(plan, claims, tools)
  const templates = new Map(changes.map((change) => [change.template, change]))
  await replaceStatefulSet(plan, live, { templates, tools })
  return undefined
}

function volumeChanges({ volumes = [] }: UpgradePlan, live: StatefulSet): VolumeChange[] {
  return volumes.flatMap((volume) => {
    const template = claimTemplate(live, volume.field)
    const from = templateSize(template)
    // Volumes that are switched on or off are no change of a volume: helm refuses them.
    if (template === undefined || from === undefined) return []
    const fromClass = template.spec.volumeAttributesClassName
    const change = { ...volume, template: template.metadata.name, from, fromClass }
    return isResized(change) || isReclassed(change) ? [change] : []
  })
}

function isResized({ from, size }: VolumeChange): boolean {
  return parseQuantity(from) !== parseQuantity(size)
}

/** Without a class in the spec the volumes keep theirs. */
function isReclassed({ fromClass, attributesClass }: VolumeChange): boolean {
  return attributesClass !== undefined && attributesClass !== fromClass
}

/**
 * The claims of all nodes. A claim that is missing or not bound gets its size from the live template. The
 * nodes of a hibernated cluster have claims and no pods.
 */
async function readClaims(
  { namespace, release, spec: { hibernate, replicas } }: UpgradePlan,
  { spec }: StatefulSet,
  { changes, tools }: { changes: VolumeChange[]; tools: Dependencies },
): Promise<ClaimChange[]> {
  const claims: ClaimChange[] = []
  const pods = spec.replicas ?? 1
  const isHibernated = pods === 0 || hibernate === true
  const nodes = isHibernated ? Math.max(pods, replicas) : pods
  for (const change of changes) {
    for (let ordinal = 0; ordinal < nodes; ordinal += 1) {
      const hasPod = ordinal < pods
      const name = claimName(change.template, release, ordinal)
      const claim = await tools.kubernetes.get(persistentVolumeClaims(namespace), name, Claim)
      // The node has never started: its claim is created with the new size.
      if (claim === undefined && !hasPod) continue
      if (claim?.status?.phase !== 'Bound') {
        const state = claim === undefined ? 'does not exist' : 'is not bound to a volume'
        throw new VolumesNotGrown(
          `${describe(change)}: PersistentVolumeClaim ${name} ${state}; the volumes change once every pod has its volume`,
        )
      }
      claims.push({ change, claim, hasPod })
    }
  }
  return claims
}

/**
 * The API server checks whether a claim can change: that the StorageClass allows it, and quotas. A dry run
 * of the same patch needs no permission to read StorageClasses.
 */
async function dryRun(
  { namespace }: UpgradePlan,
  request: ClaimChange,
  { kubernetes }: Dependencies,
): Promise<VolumeViolation | undefined> {
  const { change, claim } = request
  const { name } = claim.metadata
  const { attributesClass } = change
  try {
    const result = await kubernetes.dryRunPatch(persistentVolumeClaims(namespace), name, {
      patch: claimPatch(request),
      schema: Claim,
    })
    // API servers that do not know the field leave it out without an error.
    const { volumeAttributesClassName } = result.spec
    if (attributesClass === undefined || volumeAttributesClassName === attributesClass) {
      return undefined
    }
    return notModifiable(
      change,
      'the API server ignores the class of a volume: this needs Kubernetes 1.34, or 1.31 with the feature gate VolumeAttributesClass',
    )
  } catch (error) {
    if (!(error instanceof KubernetesError) || !isRejection(error.status)) throw error
    if (!isSmaller(request)) return notModifiable(change, apiMessage(error))
    const { storageClassName } = claim.spec
    const storageClass = storageClassName ? `StorageClass ${storageClassName}` : 'no StorageClass'
    const message = `${describeSize(change)}: PersistentVolumeClaim ${name} with ${storageClass} cannot grow: ${apiMessage(error)}; set allowVolumeExpansion: true on the StorageClass if its driver can expand volumes, or ${revertHint(change)}`
    return { reason: 'VolumeNotExpandable', message }
  }
}

function isRejection(status: number | undefined): boolean {
  return status === 403 || status === 422
}

/** Without the call, which a user does not need. */
function apiMessage({ message }: KubernetesError): string {
  return message.replace(/^[A-Z]+ \S+ answered [0-9]+: /, '')
}

/**
 * The uid makes the API server reject the patch if another claim has taken the name. A claim that a user has
 * made larger keeps its size.
 */
function claimPatch(request: ClaimChange): object {
  const { size, attributesClass } = request.change
  const { uid } = request.claim.metadata
  return {
    metadata: uid === undefined ? {} : { uid },
    spec: {
      ...(isSmaller(request) && { resources: { requests: { storage: size } } }),
      ...(attributesClass !== undefined && { volumeAttributesClassName: attributesClass }),
    },
  }
}

/**
 * File systems grow while the pods use them; some drivers finish only then. A class is applied by the
 * driver alone.
 */
async function waitForVolumes(
  { namespace }: UpgradePlan,
  claims: ClaimChange[],
  { kubernetes, time, signal, log, reporter }: Dependencies,
): Promise<void> {
  const deadline = time.monotonicMs() + CHANGE_TIMEOUT_MS
  for (const { change, claim, hasPod } of claims) {
    const { name } = claim.metadata
    await poll({ time, signal, pauseMs: CHANGE_POLL_MS }, async () => {
      const current = await kubernetes.get(persistentVolumeClaims(namespace), name, Claim)
      const missing = missingIn(current, { change, hasPod })
      if (missing === undefined) return true
      if (time.monotonicMs() >= deadline) {
        throw new VolumesNotGrown(
          `${describe(change)}: PersistentVolumeClaim ${name} still has ${missing.present} after ${CHANGE_TIMEOUT_MS / 60_000} minutes${conditionsOf(current)}; check the storage driver`,
        )
      }
      await reporter.progress(
        `waiting for PersistentVolumeClaim ${name} to have ${missing.required}`,
      )
      return undefined
    })
    log.info({ claim: name, size: change.size }, 'the volume has changed')
  }
}

/** What a volume is to have, and what it has; undefined if the change is complete. */
function missingIn(
  claim: Claim | undefined,
  { change, hasPod }: Pick<ClaimChange, 'change' | 'hasPod'>,
): { present: string; required: string } | undefined {
  const { size, attributesClass } = change
  const capacity = claim?.status?.capacity?.storage
  if (hasPod && parseQuantity(capacity ?? '') < parseQuantity(size)) {
    return { present: capacity ?? 'no capacity', required: size }
  }
  const current = claim?.status?.currentVolumeAttributesClassName
  if (attributesClass === undefined || current === attributesClass) return undefined
  const present = describeClass(current)
  return { present, required: describeClass(attributesClass) }
}

/** What the storage driver and the kubelet say about the claim. */
function conditionsOf(claim: Claim | undefined): string {
  const modification = claim?.status?.modifyVolumeStatus?.status
  const texts = (claim?.status?.conditions ?? []).map(({ type, message }) =>
    message ? `${type}: ${message}` : type,
  )
  if (modification) texts.unshift(`modification ${modification}`)
  return texts.length === 0 ? '' : ` (${texts.join('; ')})`
}

function isSmaller({ change, claim: { spec } }: ClaimChange): boolean {
  return parseQuantity(spec.resources?.requests?.storage ?? '0') < parseQuantity(change.size)
}

function hasOtherClass({ change: { attributesClass }, claim: { spec } }: ClaimChange): boolean {
  return attributesClass !== undefined && spec.volumeAttributesClassName !== attributesClass
}

function notModifiable(change: VolumeChange, why: string): VolumeViolation {
  const { field, fromClass } = change
  const former = `spec.${field}.volumeAttributesClassName`
  const hint = fromClass === undefined ? `remove ${former}` : `set ${former} to ${fromClass}`
  return { reason: 'VolumeNotModifiable', message: `${describe(change)}: ${why}; ${hint}` }
}

function describe(change: VolumeChange): string {
  const { field, fromClass = 'none', attributesClass = 'none' } = change
  const parts = [
    ...(isResized(change) ? [describeSize(change)] : []),
    ...(isReclassed(change)
      ? [`spec.${field}.volumeAttributesClassName: ${fromClass} -> ${attributesClass}`]
      : []),
  ]
  return parts.join(', ')
}

function describeSize({ field, from, size, isAutoGrown }: VolumeChange): string {
  return `spec.${field}.${isAutoGrown ? 'autoGrow' : 'size'}: ${from} -> ${size}`
}

function describeClass(name: string | undefined): string {
  return name === undefined ? 'no VolumeAttributesClass' : `VolumeAttributesClass ${name}`
}

function revertHint({ field, from, isAutoGrown }: VolumeChange): string {
  return isAutoGrown ? 'remove spec.persistence.autoGrow' : `set spec.${field}.size to ${from}`
}
