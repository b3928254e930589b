/** The volumes could not grow, or their StatefulSet not be replaced: the attempt ends and is repeated. */
export class VolumesNotGrown extends Error {
  readonly code = 'VolumesNotGrown'
}
