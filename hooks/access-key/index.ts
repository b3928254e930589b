/** The hooks of VecAccessKey: observe, decide, act. The owned Secret needs no finalize hook. */
import { VecAccessKey } from '../../crds/access-key.ts'
import { VecCluster } from '../../crds/cluster.ts'
import { kindHooks, type KindHooks, type RelatedRule } from '../protocol.ts'
import { relatedByName } from '../request.ts'
import { observe, type AccessKeyPorts } from './observe.ts'
import { sync } from './sync.ts'

export function accessKeyHooks(ports: AccessKeyPorts): KindHooks {
  return kindHooks({
    resource: VecAccessKey,
    childKinds: ['Secret.v1'],
    customize,
    finalizeReads: [],
    async sync(request, context) {
      const desired = await sync(await observe(request, ports, context), context)
      for (const event of desired.events ?? []) await ports.writeEvent(event)
      return desired
    },
  })
}

export function customize({ metadata, spec }: VecAccessKey): RelatedRule[] {
  return [relatedByName(VecCluster, { namespace: metadata.namespace, ...spec.clusterRef })]
}
