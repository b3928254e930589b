/**
 * A real API server that is too busy for the hook service: priority and fairness gives the service's
 * account no seat and no queue. The server still serves one call at a time, so this file keeps one
 * endless call of that account open.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { applyObject } from '../world/apply.ts'
import { ApiError, referenceOf, type ApiClient } from '../world/client.ts'
import { NAMESPACE, RELEASE } from './install.ts'

const apiVersion = 'flowcontrol.apiserver.k8s.io/v1'
const metadata = { name: 'vec-operator-hindered' }
const SETTLE_MS = 200
const EFFECTIVE_SECONDS = 30

const NO_SEATS = {
  apiVersion,
  kind: 'PriorityLevelConfiguration',
  metadata,
  spec: {
    type: 'Limited',
    limited: {
      ...{ nominalConcurrencyShares: 0, lendablePercent: 0, borrowingLimitPercent: 0 },
      limitResponse: { type: 'Reject' },
    },
  },
}

const SERVICE = {
  apiVersion,
  kind: 'FlowSchema',
  metadata,
  spec: {
    priorityLevelConfiguration: metadata,
    // Before those that Kubernetes has for service accounts.
    matchingPrecedence: 100,
    rules: [
      {
        subjects: [
          { kind: 'ServiceAccount', serviceAccount: { namespace: NAMESPACE, name: RELEASE } },
        ],
        resourceRules: [
          {
            ...{ verbs: ['*'], apiGroups: ['*'], resources: ['*'] },
            ...{ clusterScope: true, namespaces: ['*'] },
          },
        ],
      },
    ],
  },
}

/** Access reviews are open to every account, and their body is read after the seat was assigned. */
const REVIEW = '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews'
const AS_SERVICE = { 'impersonate-user': `system:serviceaccount:${NAMESPACE}:${RELEASE}` }

export class ApiHindrance {
  readonly #api: ApiClient
  #seat: AbortController | undefined

  constructor(api: ApiClient) {
    this.#api = api
  }

  get acts(): boolean {
    return this.#seat !== undefined
  }

  /** Returns once the API server is too busy. It stays so for less than a minute, the time it has for a call. */
  async begin(): Promise<void> {
    for (const object of [NO_SEATS, SERVICE]) await applyObject(this.#api, object)
    const deadline = Date.now() + EFFECTIVE_SECONDS * 1000
    while (!(await this.#takeSeat())) {
      if (Date.now() <= deadline) continue
      await this.end()
      throw new Error('the API server never became busy')
    }
  }

  async end(): Promise<void> {
    this.#seat?.abort()
    this.#seat = undefined
    for (const object of [SERVICE, NO_SEATS]) await this.#api.delete(referenceOf(object))
  }

  async #takeSeat(): Promise<boolean> {
    const seat = new AbortController()
    const held = this.#api.holdRequest(REVIEW, AS_SERVICE, seat.signal).catch(() => undefined)
    await Promise.race([held, sleep(SETTLE_MS)])
    if (await this.#refusesService()) {
      this.#seat = seat
      return true
    }
    seat.abort()
    await held
    return false
  }

  async #refusesService(): Promise<boolean> {
    try {
      await this.#api.raw('GET', '/api/v1/namespaces', undefined, AS_SERVICE)
      return false
    } catch (error) {
      if (error instanceof ApiError) return error.status === 429
      throw error
    }
  }
}
