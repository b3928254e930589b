/**
 * Growth of the volumes of a cluster, while its pods run. The claims of the pods are raised first. Then
 * the StatefulSet, whose claim templates are immutable, is replaced by one with the new sizes that adopts
 * the pods (stateful-set-replacement.ts): without that, helm fails, and later nodes start with the former
 * size. Every step reads what an earlier process has done, so a killed Job is continued by the next one.
 */
import { Type, type Static } from '@sinclair/typebox'
import { KubernetesError } from '../../crds/contract/errors.ts'
import type { PlannedVolume, UpgradePlan } from '../../crds/contract/job.ts'
import { claimName } from '../../crds/contract/names.ts'
import { AnyObject, type StatefulSet } from '../../crds/kubernetes.ts'
import { claimTemplate, templateSize } from '../../crds/stateful-set.ts'
import { parseQuantity } from '../../crds/units.ts'
import { persistentVolumeClaims } from '../clients/kubernetes/api-resources.ts'
import type { Dependencies } from '../dependencies.ts'
import { poll } from '../retry.ts'
import { replaceStatefulSet, VolumesNotGrown } from './stateful-set-replacement.ts'

/** How long storage driver and kubelet may take for all volumes of a cluster. */
const GROWTH_TIMEOUT_MS = 600_000
const GROWTH_POLL_MS = 2_000

const storage = Type.Object({ storage: Type.Optional(Type.String()) })
const Claim = Type.Composite([
  AnyObject,
  Type.Object({
    spec: Type.Object({
      storageClassName: Type.Optional(Type.String()),
      resources: Type.Optional(Type.Object({ requests: Type.Optional(storage) })),
    }),
    status: Type.Optional(
      Type.Object({
        phase: Type.Optional(Type.String()),
        capacity: Type.Optional(storage),
        conditions: Type.Optional(
          Type.Array(Type.Object({ type: Type.String(), message: Type.Optional(Type.String()) })),
        ),
      }),
    ),
  }),
])
type Claim = Static<typeof Claim>

/** Volumes of one claim template whose size the plan changes. */
interface SizeChange extends PlannedVolume {
  template: string
  /** Size in the live claim template. */
  from: string
}

interface ClaimChange {
  change: SizeChange
  claim: Claim
  /** Its pod exists: many file systems grow only while they are mounted. */
  hasPod: boolean
}

export interface GrowthViolation {
  reason: 'VolumeNotExpandable'
  message: string
}

/**
 * Grows the volumes to the sizes of the plan; does nothing if they have them. Returns why the plan must
 * not be applied, before anything is changed. Throws `VolumesNotGrown` for what may be different later.
 */
export async function growVolumes(
  plan: UpgradePlan,
  live: StatefulSet,
  tools: Dependencies,
): Promise<GrowthViolation | undefined> {
  const changes = sizeChanges(plan, live)
  if (changes.length === 0) return undefined
  const shrinking = changes.find(({ from, size }) => parseQuantity(size) < parseQuantity(from))
  if (shrinking !== undefined) {
    return violation(
      shrinking,
      `a volume cannot be made smaller: set spec.${shrinking.field}.size to ${shrinking.from}`,
    )
  }
  const claims = await readClaims(plan, live, { changes, tools })
  const requests = claims.filter(({ change, claim }) => requestedBytes(claim) < bytesOf(change))
  for (const request of requests) {
    const rejection = await dryRun(plan, request, tools)
    if (rejection !== undefined) return rejection
  }
  for (const { change, claim } of requests) {
    tools.log.info({ claim: claim.metadata.name, size: change.size }, 'growing a volume')
    await tools.kubernetes.patch(
      persistentVolumeClaims(plan.namespace),
      claim.metadata.name,
      sizePatch(claim, change),
    )
  }
  await waitForCapacity(
    plan,
    claims.filter(({ hasPod }) => hasPod),
    tools,
  )
  const sizes = new Map(changes.map(({ template, size }) => [template, size]))
  await replaceStatefulSet(plan, live, { sizes, tools })
  return undefined
}

function sizeChanges({ volumes = [] }: UpgradePlan, live: StatefulSet): SizeChange[] {
  return volumes.flatMap((volume) => {
    const template = claimTemplate(live, volume.field)
    const from = templateSize(template)
    // Volumes that are switched on or off are not a matter of size: helm refuses them.
    if (template === undefined || from === undefined) return []
    return parseQuantity(from) === parseQuantity(volume.size)
      ? []
      : [{ ...volume, template: template.metadata.name, from }]
  })
}

/**
 * The claims of all nodes. A claim that is missing or not bound gets its size from the live template. The
 * nodes of a hibernated cluster have claims and no pods.
 */
async function readClaims(
  { namespace, release, spec: { hibernate, replicas } }: UpgradePlan,
  { spec }: StatefulSet,
  { changes, tools }: { changes: SizeChange[]; tools: Dependencies },
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
          `${describe(change)}: PersistentVolumeClaim ${name} ${state}; the volumes grow once every pod has its volume`,
        )
      }
      claims.push({ change, claim, hasPod })
    }
  }
  return claims
}

/**
 * The API server checks whether the StatefulSet's volumes can grow: that the StorageClass allows it, and
 * quotas. A dry run of the same patch needs no permission to read StorageClasses.
 */
async function dryRun(
  { namespace }: UpgradePlan,
  { change, claim }: ClaimChange,
  { kubernetes }: Dependencies,
): Promise<GrowthViolation | undefined> {
  const { name } = claim.metadata
  try {
    await kubernetes.patch(persistentVolumeClaims(namespace), name, sizePatch(claim, change), {
      dryRun: true,
    })
    return undefined
  } catch (error) {
    if (!(error instanceof KubernetesError) || !isRejection(error.status)) throw error
    const { storageClassName } = claim.spec
    const storageClass = storageClassName ? `StorageClass ${storageClassName}` : 'no StorageClass'
    return violation(
      change,
      `PersistentVolumeClaim ${name} with ${storageClass} cannot grow: ${apiMessage(error)}; set allowVolumeExpansion: true on the StorageClass if its driver can expand volumes, or ${revertHint(change)}`,
    )
  }
}

function isRejection(status: number | undefined): boolean {
  return status === 403 || status === 422
}

/** Without the call, which a user does not need. */
function apiMessage({ message }: KubernetesError): string {
  return message.replace(/^[A-Z]+ \S+ answered [0-9]+: /, '')
}

/** The uid makes the API server reject the patch if another claim has taken the name. */
function sizePatch({ metadata: { uid } }: Claim, { size }: SizeChange): object {
  return {
    metadata: uid === undefined ? {} : { uid },
    spec: { resources: { requests: { storage: size } } },
  }
}

/** File systems grow while the pods use them; some drivers finish only then. */
async function waitForCapacity(
  { namespace }: UpgradePlan,
  claims: ClaimChange[],
  { kubernetes, time, signal, log, reporter }: Dependencies,
): Promise<void> {
  const deadline = time.now().getTime() + GROWTH_TIMEOUT_MS
  for (const { change, claim } of claims) {
    const { name } = claim.metadata
    await poll({ time, signal, pauseMs: GROWTH_POLL_MS }, async () => {
      const current = await kubernetes.get(persistentVolumeClaims(namespace), name, Claim)
      const capacity = current?.status?.capacity?.storage
      if (parseQuantity(capacity ?? '') >= bytesOf(change)) return true
      if (time.now().getTime() >= deadline) {
        throw new VolumesNotGrown(
          `${describe(change)}: PersistentVolumeClaim ${name} still has ${capacity ?? 'no capacity'} after ${GROWTH_TIMEOUT_MS / 60_000} minutes${conditionsOf(current)}; check the storage driver`,
        )
      }
      await reporter.progress(`waiting for PersistentVolumeClaim ${name} to have ${change.size}`)
      return undefined
    })
    log.info({ claim: name, size: change.size }, 'the volume has grown')
  }
}

/** What the storage driver and the kubelet say about the claim. */
function conditionsOf(claim: Claim | undefined): string {
  const texts = (claim?.status?.conditions ?? []).map(({ type, message }) =>
    message ? `${type}: ${message}` : type,
  )
  return texts.length === 0 ? '' : ` (${texts.join('; ')})`
}

function requestedBytes({ spec }: Claim): number {
  return parseQuantity(spec.resources?.requests?.storage ?? '0')
}

function bytesOf({ size }: SizeChange): number {
  return parseQuantity(size)
}

function violation(change: SizeChange, why: string): GrowthViolation {
  return { reason: 'VolumeNotExpandable', message: `${describe(change)}: ${why}` }
}

function describe({ field, from, size, isAutoGrown }: SizeChange): string {
  return `spec.${field}.${isAutoGrown ? 'autoGrow' : 'size'}: ${from} -> ${size}`
}

function revertHint({ field, from, isAutoGrown }: SizeChange): string {
  return isAutoGrown ? 'remove spec.persistence.autoGrow' : `set spec.${field}.size to ${from}`
}
