/**
 * The CompositeController as its CRD describes it, checked when the loop starts. What this loop
 * does not implement (hooks v1, ETag, rolling updates) is refused rather than quietly ignored.
 */
import { Type, type Static } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'

const closed = { additionalProperties: false }
const Strings = Type.Record(Type.String(), Type.String())

const SecretKey = Type.Object(
  { name: Type.String(), namespace: Type.String(), key: Type.String() },
  closed,
)

const Webhook = Type.Object(
  {
    url: Type.Optional(Type.String()),
    service: Type.Optional(
      Type.Object(
        {
          name: Type.String(),
          namespace: Type.String(),
          port: Type.Optional(Type.Integer()),
          protocol: Type.Optional(Type.String()),
        },
        closed,
      ),
    ),
    path: Type.Optional(Type.String()),
    timeout: Type.Optional(Type.String()),
    responseUnMarshallMode: Type.Optional(
      Type.Union([Type.Literal('strict'), Type.Literal('loose')]),
    ),
    caBundle: Type.Optional(Type.Object({ inline: Type.String() }, closed)),
    authorization: Type.Optional(
      Type.Object({ type: Type.Optional(Type.String()), secretRef: SecretKey }, closed),
    ),
  },
  closed,
)
export type Webhook = Static<typeof Webhook>

const Hook = Type.Object({ version: Type.Literal('v2'), webhook: Webhook }, closed)

export const LabelSelector = Type.Object(
  {
    matchLabels: Type.Optional(Strings),
    matchExpressions: Type.Optional(
      Type.Array(
        Type.Object(
          {
            key: Type.String(),
            operator: Type.String(),
            values: Type.Optional(Type.Array(Type.String())),
          },
          closed,
        ),
      ),
    ),
  },
  closed,
)
export type LabelSelector = Static<typeof LabelSelector>

const Method = Type.Union([
  Type.Literal('OnDelete'),
  Type.Literal('InPlace'),
  Type.Literal('Recreate'),
])
export type Method = Static<typeof Method>

export const CompositeController = Type.Object({
  apiVersion: Type.Literal('metacontroller.k8s.io/v1alpha1'),
  kind: Type.Literal('CompositeController'),
  // The name becomes part of a finalizer, whose last part may have 63 characters.
  metadata: Type.Object({ name: Type.String({ minLength: 1, maxLength: 43 }) }),
  spec: Type.Object(
    {
      parentResource: Type.Object(
        {
          apiVersion: Type.String(),
          resource: Type.String(),
          ignoreStatusChanges: Type.Optional(Type.Boolean()),
          labelSelector: Type.Optional(LabelSelector),
        },
        closed,
      ),
      childResources: Type.Optional(
        Type.Array(
          Type.Object(
            {
              apiVersion: Type.String(),
              resource: Type.String(),
              updateStrategy: Type.Optional(Type.Object({ method: Type.Optional(Method) }, closed)),
            },
            closed,
          ),
        ),
      ),
      resyncPeriodSeconds: Type.Optional(Type.Integer()),
      generateSelector: Type.Optional(Type.Boolean()),
      hooks: Type.Object(
        {
          sync: Hook,
          finalize: Type.Optional(Hook),
          customize: Type.Optional(Hook),
        },
        closed,
      ),
    },
    closed,
  ),
})
export type CompositeController = Static<typeof CompositeController>

/** Throws an error that names the field which is wrong or unknown here. */
export function checkController(controller: unknown): CompositeController {
  if (Value.Check(CompositeController, controller)) return controller
  const first = Value.Errors(CompositeController, controller).First()
  throw new Error(`CompositeController${first?.path ?? ''}: ${first?.message ?? 'not valid'}`)
}
