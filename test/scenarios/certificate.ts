/** The certificate of a cluster whose nodes use TLS among themselves, as docs/operations.md describes it. */
import type { NamespacedName } from '../../crds/schema.ts'

/** For clients and the operator the names of the Service and of the pods, for the other nodes each short name. */
export function certificateHosts(
  { namespace, name }: NamespacedName,
  nodes: readonly number[],
): string[] {
  const domain = `${namespace}.svc.cluster.local`
  return [
    ...[`vec-${name}.${domain}`, `*.vec-${name}-headless.${domain}`],
    ...nodes.map((node) => `vec-${name}-${node}.vec-${name}-headless`),
  ]
}
