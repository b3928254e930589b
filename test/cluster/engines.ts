/**
 * All images of a run and how they reach the node: the operator's, and the engine's in the versions that
 * can be installed. Where the cache has only one engine and chart, both pass for each of the versions, so
 * that an upgrade can be shown; the line of the real parts says so.
 */
import { enginePartsOf, installableVersions } from '../real-parts.ts'
import type { Image } from './buildah.ts'
import { buildDoubleImage, buildEngineImage, buildOperatorImage } from './images.ts'
import type { LocalCluster } from './local.ts'
import type { Log, Tools } from './tools.ts'

/** Those that have images and charts. */
export const INSTALLABLE_VERSIONS = installableVersions(process.env)

/** An upgrade goes from one to the other; other versions can be named where their images and charts can be had. */
export const ENGINE_VERSIONS = {
  older: INSTALLABLE_VERSIONS.at(0) ?? '',
  newer: INSTALLABLE_VERSIONS.at(-1) ?? '',
} as const

export interface Images {
  readonly operator: Image
  readonly engines: readonly Image[]
}

/** Of this work tree: the real engine if ENGINE_BIN names one, else our double. */
export async function buildImages(tools: Pick<Tools, 'helm'>): Promise<Images> {
  const operator = await buildOperatorImage(tools)
  const { ENGINE_CONFIG: engineConfig } = process.env
  const engines: Image[] = []
  for (const version of INSTALLABLE_VERSIONS) {
    const { engineBin } = enginePartsOf(version, process.env)
    const image =
      engineBin === undefined
        ? await buildDoubleImage(version)
        : await buildEngineImage({ engineBin, engineConfig, as: version })
    engines.push(image)
  }
  return { operator, engines }
}

/** Makes them known to the node. */
export async function loadImages(
  cluster: Pick<LocalCluster, 'loadImage'>,
  { operator, engines }: Images,
  log: Log,
): Promise<void> {
  const named = [
    ...engines.map((image) => ['engine', image] as const),
    ['operator', operator] as const,
  ]
  for (const [what, { name, sizeBytes, archive }] of named) {
    await cluster.loadImage(archive)
    log(`${what} image ${name}: ${Math.round(sizeBytes / 1e6)} MB`)
  }
}
