/** Calls to the outside, each told with how long it took and how it was answered. */
import type { Logger } from 'pino'
import type { Transport } from '../../jobs/clients/engine/transport.ts'
import {
  Kubernetes,
  type ApiAccess,
  type RequestOptions,
} from '../../jobs/clients/kubernetes/client.ts'
import type { HttpResponse } from '../../jobs/clients/http/request.ts'
import type { ClientCall } from './index.ts'

export type OnCall = (call: ClientCall) => void

/** The Kubernetes API; every call of the service to it goes through `call`. */
export class InstrumentedKubernetes extends Kubernetes {
  readonly #onCall: OnCall

  constructor(access: ApiAccess, log: Logger, onCall: OnCall) {
    super(access, log)
    this.#onCall = onCall
  }

  override call(
    method: Parameters<Kubernetes['call']>[0],
    path: string,
    call?: RequestOptions,
  ): Promise<HttpResponse> {
    return withTiming(this.#onCall, method, () => super.call(method, path, call))
  }
}

/** The way to an engine; streams are counted when their headers have come. */
export function instrumentedTransport(transport: Transport, onCall: OnCall): Transport {
  return {
    node: transport.node,
    send: (call, ca) => withTiming(onCall, call.method, () => transport.send(call, ca)),
    open: (call, ca) => withTiming(onCall, call.method, () => transport.open(call, ca)),
  }
}

async function withTiming<T extends { status: number }>(
  onCall: OnCall,
  method: string,
  send: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now()
  const report = (status: number | undefined) => {
    onCall({ method, status, seconds: (performance.now() - startedAt) / 1000 })
  }
  try {
    const response = await send()
    report(response.status)
    return response
  } catch (error) {
    report(undefined)
    throw error
  }
}
