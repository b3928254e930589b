/** The part all plans share; crds/command.ts and the files beside it add what a verb needs. */
import { Type } from '@sinclair/typebox'

/** What every plan says: whom to work for, and which run this is. */
export const planBase = {
  /** Plural of the resource's kind. */
  resource: Type.String(),
  namespace: Type.String(),
  name: Type.String(),
  uid: Type.String(),
  /** Number of this Job among those of its resource. */
  run: Type.Integer({ minimum: 1 }),
  /** Hash of what is wanted: a plan with the same hash need not run again. */
  hash: Type.String(),
}
