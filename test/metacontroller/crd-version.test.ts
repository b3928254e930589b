import t from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { ANNOTATIONS } from '../../crds/contract/names.ts'
import { outdatedCrdReason } from '../../crds/crd.ts'
import { isOlder } from '../../crds/versions.ts'
import { watchCrdVersions } from '../../metacontroller/crd-version.ts'
import { ManualClock } from '../world/clock.ts'

const silent = { debug: () => undefined, info: () => undefined, warn: () => undefined }

function crd(version?: string): AnyObject {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: 'vecclusters.vec-operator.dev',
      ...(version !== undefined && { annotations: { [ANNOTATIONS.version]: version } }),
    },
  }
}

for (const [found, problem] of [
  [crd('0.2.0'), undefined],
  [crd('0.3.0'), undefined],
  [
    crd('0.1.9'),
    'vecclusters.vec-operator.dev is of release 0.1.9, 0.2.0 is needed: apply the new CRDs first',
  ],
  [crd(), 'vecclusters.vec-operator.dev names no release, 0.2.0 is needed'],
  [undefined, 'vecclusters.vec-operator.dev is not installed'],
] as const) {
  t.test(`a CRD of release ${version(found)} gives: ${problem ?? 'no problem'}`, async (t) => {
    t.equal(outdatedCrdReason('vecclusters', found, '0.2.0'), problem)
  })
}

for (const [left, right, older] of [
  ['1.2.3', '1.2.3', false],
  ['1.2.3', '1.2.4', true],
  ['1.10.0', '1.9.0', false],
  ['v1.9.0', '1.10.0', true],
  ['2.0.0', '1.99.99', false],
  ['1.2.0-rc.1', '1.2.0', true],
  ['1.2.0', '1.2.0-rc.1', false],
  ['1.2.0-rc.1', '1.2.0-rc.2', true],
  ['nonsense', '0.1.0', true],
] as const) {
  t.test(`${left} is ${older ? '' : 'not '}older than ${right}`, async (t) => {
    t.equal(isOlder(left, right), older)
  })
}

t.test('CRDs are compared at start, and every 30 s while one is too old', async (t) => {
  const clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  let installed = '0.1.0'
  let reads = 0
  const crds = await watchCrdVersions({
    version: '0.2.0',
    plurals: ['vecclusters'],
    read: async () => {
      reads += 1
      return crd(installed)
    },
    timers: clock,
    log: silent,
  })
  t.match(crds.outdatedReason('vecclusters'), /is of release 0\.1\.0/)
  installed = '0.2.0'
  clock.advance(29_999)
  t.equal(reads, 1)
  clock.advance(1)
  await new Promise(setImmediate)
  t.equal(crds.outdatedReason('vecclusters'), undefined)
  t.equal(clock.nextTimerAt(), undefined, 'and no more after that')
  crds.stop()
})

t.test('while the CRDs cannot be read no hook answers, and they are read again', async (t) => {
  const clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  let failing = true
  const crds = await watchCrdVersions({
    version: '0.2.0',
    plurals: ['vecclusters'],
    read: async () => {
      if (failing) throw new Error('no route to the API')
      return crd('0.2.0')
    },
    timers: clock,
    log: silent,
  })
  t.equal(crds.outdatedReason('vecclusters'), 'vecclusters.vec-operator.dev is not read yet')
  failing = false
  clock.advance(30_000)
  await new Promise(setImmediate)
  t.equal(crds.outdatedReason('vecclusters'), undefined)
})

t.test('a stopped service compares no more', async (t) => {
  const clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  const crds = await watchCrdVersions({
    version: '0.2.0',
    plurals: ['vecclusters'],
    read: async () => undefined,
    timers: clock,
    log: silent,
  })
  t.ok(clock.nextTimerAt(), 'before it is stopped')
  crds.stop()
  t.equal(clock.nextTimerAt(), undefined)
})

t.test('a comparison that is in progress when the service stops is the last one', async (t) => {
  const clock = new ManualClock(new Date('2026-03-01T12:00:00Z'))
  const reading = Promise.withResolvers<undefined>()
  let reads = 0
  const crds = await watchCrdVersions({
    version: '0.2.0',
    plurals: ['vecclusters'],
    read: async () => ((reads += 1) === 1 ? undefined : reading.promise),
    timers: clock,
    log: silent,
  })
  clock.advance(30_000)
  t.equal(reads, 2)
  crds.stop()
  reading.resolve(undefined)
  await new Promise(setImmediate)
  t.equal(clock.nextTimerAt(), undefined)
})

function version(found: AnyObject | undefined): string {
  return found === undefined
    ? 'nothing'
    : (found.metadata.annotations?.[ANNOTATIONS.version] ?? '?')
}
