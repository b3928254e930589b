/** Engines as people reach them: through the API server, which works with no more than a kubeconfig. */
import type { Connection } from '../../crds/connection.ts'
import { Secret } from '../../crds/kubernetes.ts'
import { secretEngineCredentials } from '../clients/credentials.ts'
import { proxyRoute } from '../clients/engine-route.ts'
import { Engine } from '../clients/engine.ts'
import type { Kubernetes } from '../clients/kubernetes.ts'
import type { PeopleCall } from './command.ts'

export function enginesOf(
  kubernetes: Kubernetes,
  connection: Connection,
  { log }: Pick<PeopleCall, 'log'>,
): (ordinal?: number) => Engine {
  // Read once for all calls of this command.
  let known: ReturnType<typeof secretEngineCredentials> | undefined
  const read = (namespace: string, name: string) => secretIn(kubernetes, namespace, name)
  const credentials = () => (known ??= secretEngineCredentials(connection, read))
  return (ordinal) =>
    new Engine({ route: proxyRoute(kubernetes, connection, ordinal), credentials, log })
}

/** With the rights of the caller. */
export function secretIn(
  kubernetes: Kubernetes,
  namespace: string,
  name: string,
): Promise<Secret | undefined> {
  return kubernetes.get({ apiVersion: 'v1', plural: 'secrets', namespace }, name, Secret)
}
