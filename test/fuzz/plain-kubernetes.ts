/**
 * The service's client of Kubernetes on objects in memory, without HTTP in between: thousands of hooks
 * a second, with all that the API server has against an object. What goes through the pod proxy is the
 * engine's to answer.
 */
import { pino } from 'pino'
import { KubernetesError } from '../../crds/contract/errors.ts'
import { Kubernetes, type RequestOptions } from '../../jobs/clients/kubernetes/client.ts'
import type { HttpResponse } from '../../jobs/clients/http/request.ts'
import type { AskEngine } from '../doubles/engine/without-server.ts'
import { answerTo } from '../world/api/calls.ts'
import { ApiFailure, unknownPath } from '../world/api/failure.ts'
import type { Resources } from '../world/api/resources.ts'
import { routeOf } from '../world/api/routes.ts'

export class PlainKubernetes extends Kubernetes {
  readonly #resources: Resources
  readonly #engine: AskEngine

  constructor(resources: Resources, engine: AskEngine) {
    super({ server: 'http://nowhere.test', authorize: refused }, pino({ level: 'silent' }))
    this.#resources = resources
    this.#engine = engine
  }

  override async call(
    method: string,
    path: string,
    call: RequestOptions = {},
  ): Promise<HttpResponse> {
    const [pathname = '', search = ''] = path.split('?')
    const route = routeOf(this.#resources.kinds, pathname)
    const { body: sent, contentType = '' } = call
    const body: unknown = typeof sent === 'string' ? JSON.parse(sent) : sent
    if (route?.sub === 'proxy') {
      const asked = (route.rest || '/') + (search === '' ? '' : `?${search}`)
      const answer = await this.#engine({ pod: route.name, method, path: asked, body })
      if (answer !== undefined) return answer
      throw new KubernetesError(`${method} ${path} got no answer: the engine is absent`)
    }
    try {
      if (route === undefined) throw unknownPath()
      const query = new URLSearchParams(search)
      const { code, value } = answerTo(this.#resources, { route, query, method, contentType, body })
      return { status: code, text: JSON.stringify(value) }
    } catch (error) {
      if (!(error instanceof ApiFailure)) throw error
      return { status: error.code, text: JSON.stringify(error.toStatus()) }
    }
  }
}

async function refused(): Promise<never> {
  throw new KubernetesError('there is no server to be reached')
}
