/** Clients that report the duration and the response status of each call to an external system. */
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

/** Kubernetes API client; every API call of the service goes through `call`. */
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

/** Engine transport; a stream is recorded when its response headers arrive. */
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
