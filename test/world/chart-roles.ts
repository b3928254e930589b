/**
 * The chart's own Roles and bindings for the embedded API, as helm renders them: a right that is missing in the chart
 * is missing here. They are recorded, and test/chart/roles.test.ts fails when the templates have changed since.
 */
import { parseAllDocuments } from 'yaml'
import { recordedRoles, type RoleRecording } from '../chart/golden.ts'
import type { ApiObject } from './client.ts'

/** Accounts of the two processes. */
export const SERVICE_ACCOUNT = { namespace: 'vec-operator', name: 'vec-operator' }
export const METACONTROLLER_ACCOUNT = { namespace: 'metacontroller', name: 'metacontroller' }

export function chartRoles(recording: RoleRecording = 'roles'): ApiObject[] {
  return parseAllDocuments(recordedRoles(recording))
    .map((document) => document.toJS() as ApiObject | null)
    .filter((object): object is ApiObject => object !== null)
}
