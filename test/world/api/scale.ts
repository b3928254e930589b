/** The scale subresource of a StatefulSet: its number of pods, under another kind. */
import type { ApiObject } from '../client.ts'
import { recordAt } from './json.ts'
import { ApiFailure, unknownPath } from './failure.ts'
import { patched } from './patch.ts'
import type { Resources } from './resources.ts'
import type { Route } from './routes.ts'

interface ScaleCall {
  method: string
  /** Of a patch. */
  contentType: string
  body: unknown
}

export function answerScale(resources: Resources, route: Route, call: ScaleCall): object {
  const { kind } = route
  if (kind.kind !== 'StatefulSet') throw unknownPath()
  switch (call.method) {
    case 'GET':
      return scaleOf(resources.get(kind, route.namespace, route.name))
    case 'PATCH': {
      const [type = ''] = call.contentType.split(';')
      const change = (old: ApiObject) => withScale(old, patched(scaleOf(old), type, call.body))
      return scaleOf(resources.update(kind, route, change))
    }
    default:
      throw new ApiFailure(405, 'MethodNotAllowed', `${call.method} is not served here`)
  }
}

function scaleOf(object: ApiObject): ApiObject {
  const { name, namespace, uid, resourceVersion, creationTimestamp } = object.metadata
  return {
    kind: 'Scale',
    apiVersion: 'autoscaling/v1',
    metadata: {
      name,
      ...(namespace !== undefined && { namespace }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
      ...(creationTimestamp !== undefined && { creationTimestamp }),
    },
    spec: { replicas: recordAt(object, 'spec')['replicas'] ?? 0 },
    status: { replicas: recordAt(object, 'status')['replicas'] ?? 0 },
  }
}

/** Another resourceVersion than that of the object is a conflict, as in any update. */
function withScale(object: ApiObject, scale: unknown): ApiObject {
  const { metadata, spec } = scale as ApiObject & { spec: { replicas: number } }
  const { resourceVersion } = metadata
  return {
    ...object,
    metadata: { ...object.metadata, ...(resourceVersion !== undefined && { resourceVersion }) },
    spec: { ...recordAt(object, 'spec'), replicas: spec.replicas },
  }
}
