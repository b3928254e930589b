/** Which helm run a VecCluster needs, and whether it needs one. */
import { Value } from '@sinclair/typebox/value'
import { Risk, type UninstallPlan } from '../../crds/command.ts'
import { ANNOTATIONS, releaseName, shortHash } from '../../crds/names.ts'
import type { VecCluster } from '../../crds/cluster.ts'
import { isUnfinished } from '../job.ts'
import type { Settings } from '../protocol.ts'
import type { Observed, Wanted } from './observed.ts'
import { fingerprints, usedSecrets } from './secrets.ts'
import { valuesOf } from './values.ts'

export function wantedRun(observed: Observed, settings: Settings): Wanted {
  const { cluster, secrets } = observed
  const { metadata, spec } = cluster
  const startMark = metadata.annotations?.[ANNOTATIONS.startMark]
  const values = valuesOf(cluster, {
    hasAuthority: secrets.get(spec.tls.secretRef?.name ?? '')?.data?.['ca.crt'] !== undefined,
  })
  const target = {
    ...targetOf(cluster),
    release: releaseName(metadata.name),
    chart: settings.chart.name,
    repository: settings.chart.repository,
    version: spec.version.replace(/^v/, ''),
    values,
    secretFingerprints: fingerprints(usedSecrets(spec), secrets),
    acceptedRisks: acceptedRisks(cluster),
    engine: { tls: spec.tls.enabled, p2p: spec.cluster.enabled },
  }
  return {
    ...target,
    generation: metadata.generation,
    ...(startMark !== undefined && { startMark }),
    spec,
    hash: shortHash(JSON.stringify({ ...target, generation: metadata.generation, startMark })),
  }
}

/** The uninstall of a release: there is one, whatever was applied. */
export function uninstallRun(cluster: VecCluster): Omit<UninstallPlan, 'run'> {
  const release = releaseName(cluster.metadata.name)
  return { ...targetOf(cluster), release, hash: shortHash('uninstall', cluster.metadata.uid) }
}

function targetOf({ metadata: { namespace, name, uid } }: VecCluster) {
  return { resource: 'vecclusters', namespace, name, uid }
}

function acceptedRisks({ metadata }: VecCluster): Risk[] {
  const words = (metadata.annotations?.[ANNOTATIONS.acceptRisk] ?? '').split(',')
  return words.map((word) => word.trim()).filter((word) => Value.Check(Risk, word))
}

/**
 * The run that is due: none while a Job has not ended, else the wanted one if and only if what was
 * applied last differs from it. The hash covers the values, the generation, the Secrets, the start
 * mark and the risks accepted.
 */
export function dueRun(observed: Observed, settings: Settings): Wanted | undefined {
  if (observed.jobs.some(isUnfinished)) return undefined
  const wanted = wantedRun(observed, settings)
  return observed.progress?.applied?.planHash === wanted.hash ? undefined : wanted
}
