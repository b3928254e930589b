/** The tour, VecAccessKey: a token, and its successor. */
import type { AnyObject } from '../../../crds/kubernetes.ts'
import { sampleWith, type Step } from './step.ts'

export const ACCESS_KEY_STEPS: Step[] = [
  {
    says: 'A VecAccessKey: a token that may read this one collection, in a Secret of its own.',
    types: 'apply -f docs/samples/access-key.yaml',
    sample: 'access-key',
    // The default of half an hour is too long for a demo.
    act: (context) => context.world.apply(sampleWith(context, 'access-key', { ttl: '90s' })),
    phases: ['Ready'],
    seconds: 120,
  },
  {
    says: 'A third of its life before it ends, the token is renewed.',
    types: 'get vecaccesskey books-reader --watch',
    sample: 'access-key',
    act: async () => undefined,
    phases: ['Ready'],
    shows: (object, before) => issueOf(object) !== issueOf(before),
    seconds: 300,
  },
]

function issueOf(object: AnyObject | undefined): string | undefined {
  return (object as { status?: { issuedAt?: string } } | undefined)?.status?.issuedAt
}
