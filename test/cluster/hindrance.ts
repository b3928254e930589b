/**
 * A real API server that is too busy for the hook service: priority and fairness, told to give the
 * service's account no seat and no queue.
 */
import { applyObject } from '../world/apply.ts'
import { referenceOf, type ApiClient } from '../world/client.ts'
import { NotHere } from '../world/world.ts'
import { NAMESPACE, RELEASE } from './install.ts'

const apiVersion = 'flowcontrol.apiserver.k8s.io/v1'
const metadata = { name: 'vec-operator-hindered' }

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

export async function hinderApi(api: ApiClient, hindrance?: 'busy' | 'slow'): Promise<void> {
  if (hindrance === 'slow') throw new NotHere('a slow API server is shown in the embedded world')
  for (const object of [NO_SEATS, SERVICE]) {
    if (hindrance === 'busy') await applyObject(api, object)
    else await api.delete(referenceOf(object))
  }
}
