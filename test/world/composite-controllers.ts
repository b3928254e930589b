/** The kind that Metacontroller brings, for worlds without it. */

const ANY_OBJECT = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }

/** Its definition; the schema covers only the fields that a program here reads. */
export function compositeControllerCrd(schema: object = ANY_OBJECT) {
  const kind = 'CompositeController'
  const plural = 'compositecontrollers'
  const singular = 'compositecontroller'
  const names = { kind, plural, singular, listKind: `${kind}List`, shortNames: ['cc', 'cctl'] }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: `${plural}.metacontroller.k8s.io`,
      annotations: { 'api-approved.kubernetes.io': 'unapproved, a stand-in for tests' },
    },
    spec: {
      group: 'metacontroller.k8s.io',
      names,
      scope: 'Cluster',
      versions: [
        {
          name: 'v1alpha1',
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  }
}
