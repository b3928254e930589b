/** Calls to the outside, each told with how long it took and how it was answered. */
import type { Logger } from 'pino'
import type { Route } from '../jobs/clients/engine-route.ts'
import { Kubernetes, type Access, type Call } from '../jobs/clients/kubernetes.ts'
import type { Answer } from '../jobs/clients/whole-answer.ts'
import type { OutsideCall } from './metrics.ts'

export type Called = (call: OutsideCall) => void

/** The Kubernetes API; every call of the service to it goes through `call`. */
export class CountedKubernetes extends Kubernetes {
  readonly #called: Called

  constructor(access: Access, log: Logger, called: Called) {
    super(access, log)
    this.#called = called
  }

  override call(
    method: Parameters<Kubernetes['call']>[0],
    path: string,
    call?: Call,
  ): Promise<Answer> {
    return timed(this.#called, method, () => super.call(method, path, call))
  }
}

/** The way to an engine; streams are counted when their headers have come. */
export function countedRoute(route: Route, called: Called): Route {
  return {
    node: route.node,
    send: (call, ca) => timed(called, call.method, () => route.send(call, ca)),
    open: (call, ca) => timed(called, call.method, () => route.open(call, ca)),
  }
}

async function timed<T extends { status: number }>(
  called: Called,
  method: string,
  send: () => Promise<T>,
): Promise<T> {
  const started = performance.now()
  const tell = (status: number | undefined) => {
    called({ method, status, seconds: (performance.now() - started) / 1000 })
  }
  try {
    const answer = await send()
    tell(answer.status)
    return answer
  } catch (error) {
    tell(undefined)
    throw error
  }
}
