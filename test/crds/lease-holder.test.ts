import t from 'tap'
import { formatHolderIdentity, readLeaseHolder, type Lease } from '../../crds/kubernetes.ts'

function lease(holderIdentity: string): Lease {
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name: 'vec-a-write', namespace: 'ns' },
    spec: { holderIdentity },
  }
}

const RESTORE = {
  kind: 'VecRestore',
  namespace: 'ns',
  name: 'docs.back-1',
  uid: '0d2c3a7e-4f5b-4a60-9c1d-8e7f6a5b4c3d',
}

t.test('a holder that is written into a Lease can be read from it', async (t) => {
  t.equal(
    formatHolderIdentity(RESTORE),
    'VecRestore/ns/docs.back-1/0d2c3a7e-4f5b-4a60-9c1d-8e7f6a5b4c3d',
  )
  t.strictSame(readLeaseHolder(lease(formatHolderIdentity(RESTORE))), RESTORE)
})

t.test('a Lease names no holder when a part of the name is missing', async (t) => {
  for (const wrong of [
    { kind: '' },
    { namespace: 'n s' },
    { namespace: 'n'.repeat(64) },
    { name: 'Docs' },
    { name: 'd'.repeat(254) },
    { uid: 'a,b=c' },
    { uid: 'u'.repeat(64) },
    { uid: 'more/parts' },
  ]) {
    t.equal(
      readLeaseHolder(lease(formatHolderIdentity({ ...RESTORE, ...wrong }))),
      undefined,
      JSON.stringify(wrong),
    )
  }
})

t.test('a Lease without a spec, or without a holder, names none', async (t) => {
  const { spec, ...bare } = lease('')
  t.equal(readLeaseHolder(bare), undefined)
  t.equal(readLeaseHolder({ ...bare, spec: {} }), undefined)
  t.strictSame(spec, { holderIdentity: '' })
})
