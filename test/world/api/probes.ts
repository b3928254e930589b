/** What Kubernetes has against the probes and the lifecycle of a container. */
import { atLeast, invalidValue, isAbsent, notAllowed, oneOf, required } from './causes.ts'
import type { Cause } from './failure.ts'
import { isRecord, recordAt, type Json } from './json.ts'
import { portNumber } from './containers.ts'

const PROBES = ['livenessProbe', 'readinessProbe', 'startupProbe']
/** In the order in which Kubernetes looks at them: each after the first is one too many. */
const HANDLERS = ['exec', 'httpGet', 'tcpSocket', 'grpc', 'sleep']
const TIMES = [
  'initialDelaySeconds',
  'timeoutSeconds',
  'periodSeconds',
  'successThreshold',
  'failureThreshold',
]

export function probeCauses(container: Json, path: string): Cause[] {
  const lifecycle = recordAt(container, 'lifecycle')
  return [
    ...PROBES.filter((name) => isRecord(container[name])).flatMap((name) =>
      ofProbe(recordAt(container, name), name, `${path}.${name}`),
    ),
    ...['preStop', 'postStart']
      .filter((name) => isRecord(lifecycle[name]))
      .flatMap((name) => handlerCauses(recordAt(lifecycle, name), `${path}.lifecycle.${name}`)),
  ]
}

function ofProbe(probe: Json, name: string, path: string): Cause[] {
  const { successThreshold } = probe
  const isOften = name !== 'readinessProbe' && Number(successThreshold ?? 1) > 1
  return [
    ...handlerCauses(probe, path),
    ...TIMES.flatMap((time) => atLeast(`${path}.${time}`, probe[time], 0)),
    ...(isOften ? [invalidValue(`${path}.successThreshold`, successThreshold, 'must be 1')] : []),
  ]
}

function handlerCauses(given: Json, path: string): Cause[] {
  const [first, ...more] = HANDLERS.filter((handler) => isRecord(given[handler]))
  if (first === undefined) return [required(path, 'must specify a handler type')]
  const httpGet = recordAt(given, 'httpGet')
  const port = recordAt(given, first)['port']
  return [
    ...more.map((handler) =>
      notAllowed(`${path}.${handler}`, 'may not specify more than 1 handler type'),
    ),
    ...oneOf(`${path}.httpGet.scheme`, httpGet['scheme'], ['HTTP', 'HTTPS']),
    ...(isAbsent(port) ? [] : portNumber(`${path}.${first}.port`, port)),
  ]
}
