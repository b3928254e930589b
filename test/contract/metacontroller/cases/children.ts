/** How children are made, changed, claimed and deleted: facts section 5. */
import { configMap, job, part } from '../kinds.ts'
import type { Case } from '../setting.ts'
import type { Stage } from '../stage.ts'
import { keeping, withChild } from './answers.ts'

/** A child at rest, changed by a user if the case has such a change, then desired otherwise; and at rest again. */
async function changed(
  stage: Stage,
  { kind, first, meddle, second }: { kind: string; first: object; meddle?: object; second: object },
): Promise<void> {
  stage.hooks.answer('sync', keeping(first))
  await stage.start(stage.setting)
  await stage.thing()
  await stage.untilThere(kind, 'one')
  await stage.quiet()
  if (meddle !== undefined) await stage.patch(kind, 'one', meddle)
  await stage.quiet()
  await stage.noteObject('before', kind, 'one')
  stage.hooks.answer('sync', keeping(second))
  await stage.touch('once')
  await stage.quiet()
  await stage.noteObject('after', kind, 'one')
  await stage.noteEvents('events')
}

export const CHILDREN: Case[] = [
  {
    title: 'a child gets label, owner reference and last-applied annotation, and is then observed',
    async play(stage) {
      await withChild(stage)
      await stage.noteObject('child', 'ConfigMap', 'one')
      stage.note('children received', stage.hooks.of('sync').at(-1)?.body.children)
    },
  },
  {
    title: 'a changed child is observed, and one that another client deleted is recreated',
    async play(stage) {
      await withChild(stage)
      await stage.patch('ConfigMap', 'one', { data: { colour: 'green' } })
      await stage.waitForCall('sync', 'the change', ({ children }) =>
        JSON.stringify(children).includes('green'),
      )
      const uid = (await stage.get('ConfigMap', 'one'))?.metadata.uid
      await stage.delete('ConfigMap', 'one')
      await stage.until('it is recreated', async () => {
        const found = await stage.get('ConfigMap', 'one')
        return found !== undefined && found.metadata.uid !== uid
      })
      await stage.quiet()
      stage.note('data', (await stage.get('ConfigMap', 'one'))?.['data'])
    },
  },
  {
    title: 'OnDelete leaves a child whose template changed as it is',
    async play(stage) {
      stage.hooks.answer('sync', keeping(job('one', 'first')))
      await stage.start({})
      await stage.thing()
      const made = await stage.untilThere('Job', 'one')
      await stage.quiet()
      stage.hooks.answer('sync', keeping(job('one', 'second')))
      await stage.touch('once')
      await stage.quiet()
      const left = await stage.untilThere('Job', 'one')
      stage.note('the same object', left.metadata.uid === made.metadata.uid)
      stage.note('the same generation', left.metadata.generation === made.metadata.generation)
      stage.note('last applied is the first', lastAppliedOf(left).includes('first'))
      await stage.noteEvents('events')
    },
  },
  {
    title: 'OnDelete keeps a child that is returned with apiVersion, kind and name only',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer(
        'sync',
        keeping({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'one' } }),
      )
      await stage.touch('once')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'InPlace on a Job whose template changed fails every time, and status is still written',
    setting: { methods: { Job: 'InPlace' } },
    async play(stage) {
      stage.hooks.answer('sync', keeping(job('one', 'first')))
      await stage.start(stage.setting)
      await stage.thing()
      await stage.untilThere('Job', 'one')
      await stage.quiet()
      const before = stage.hooks.of('sync').length
      stage.hooks.answer('sync', () => ({
        status: { phase: 'Changed' },
        children: [job('one', 'second')],
      }))
      await stage.touch('once')
      await stage.untilCalls('sync', before + 3)
      await stage.noteEvents('events')
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status)
    },
  },
  {
    title:
      'InPlace sets desired fields, removes those not desired any more, and leaves fields of others',
    setting: { methods: { ConfigMap: 'InPlace' } },
    play: (stage) =>
      changed(stage, {
        kind: 'ConfigMap',
        first: configMap(
          'one',
          { stays: '1', goes: '1', changes: '1' },
          { labels: { a: '1', b: '1' } },
        ),
        meddle: { data: { foreign: '1' }, metadata: { annotations: { foreign: '1' } } },
        second: configMap('one', { stays: '1', changes: '2', comes: '1' }, { labels: { b: '2' } }),
      }),
  },
  {
    title: 'InPlace repairs what another client changed',
    setting: { methods: { ConfigMap: 'InPlace' } },
    async play(stage) {
      await withChild(stage, stage.setting)
      await stage.patch('ConfigMap', 'one', { data: { colour: 'green' } })
      await stage.until('it is repaired', async () => {
        const found = await stage.get('ConfigMap', 'one')
        return JSON.stringify(found?.['data']) === '{"colour":"red"}'
      })
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
    },
  },
  {
    title: 'lists merge by a key that all items have, other lists are replaced',
    setting: { methods: { Part: 'InPlace' } },
    play: (stage) =>
      changed(stage, {
        kind: 'Part',
        first: part('one', {
          named: [
            { name: 'a', value: '<1>' },
            { name: 'b', value: '1' },
          ],
          ports: [{ containerPort: 80, name: 'web' }],
          plain: ['a', 'b'],
          mixed: [{ name: 'a' }, { other: 'b' }],
          gone: { with: 'all' },
        }),
        meddle: {
          spec: {
            named: [
              { name: 'foreign', value: '1' },
              { name: 'a', value: '<1>', extra: true },
              { name: 'b', value: '1' },
            ],
            plain: ['a', 'b', 'foreign'],
            ports: [{ containerPort: 80, name: 'web', protocol: 'TCP' }],
            mixed: [{ name: 'a' }, { other: 'b' }, { name: 'foreign' }],
          },
        },
        second: part('one', {
          named: [
            { name: 'c', value: '1' },
            { name: 'a', value: '2' },
          ],
          ports: [{ containerPort: 81, name: 'web' }],
          plain: ['b'],
          mixed: [{ name: 'z' }],
          deep: { empty: {}, list: [], none: null },
        }),
      }),
  },
  {
    title: 'InPlace ignores the status and the system fields of a child in the answer',
    setting: { methods: { Part: 'InPlace' } },
    play: (stage) =>
      changed(stage, {
        kind: 'Part',
        first: part('one', { size: 1 }),
        second: {
          ...part('one', { size: 1 }),
          metadata: { name: 'one', generation: 99, creationTimestamp: '2020-01-01T00:00:00Z' },
          status: { phase: 'Wished' },
        },
      }),
  },
  {
    title: 'Recreate does not recreate a child for a status or system fields in the answer',
    setting: { methods: { Part: 'Recreate' } },
    async play(stage) {
      stage.hooks.answer(
        'sync',
        keeping({
          ...part('one', { size: 1 }),
          metadata: { name: 'one', generation: 99, creationTimestamp: '2020-01-01T00:00:00Z' },
          status: { phase: 'Wished' },
        }),
      )
      await stage.start(stage.setting)
      await stage.thing()
      await stage.untilThere('Part', 'one')
      await stage.quiet()
      const uid = (await stage.get('Part', 'one'))?.metadata.uid
      await stage.touch('once')
      await stage.quiet()
      await stage.noteObject('child', 'Part', 'one')
      stage.note('the same', (await stage.get('Part', 'one'))?.metadata.uid === uid)
    },
  },
  {
    title: 'Recreate deletes a changed child and creates it again',
    setting: { methods: { ConfigMap: 'Recreate' } },
    async play(stage) {
      await withChild(stage, stage.setting)
      const uid = (await stage.get('ConfigMap', 'one'))?.metadata.uid
      stage.hooks.answer('sync', keeping(configMap('one', { colour: 'blue' })))
      await stage.touch('once')
      await stage.until('it is recreated', async () => {
        const found = await stage.get('ConfigMap', 'one')
        return found !== undefined && found.metadata.uid !== uid
      })
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
    },
  },
]

function lastAppliedOf({
  metadata,
}: {
  metadata: { annotations?: Record<string, string> }
}): string {
  return metadata.annotations?.['metacontroller.k8s.io/last-applied-configuration'] ?? ''
}
