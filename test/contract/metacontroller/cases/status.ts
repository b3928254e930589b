/** The status, and which changes of a parent trigger a sync: see docs/metacontroller-notes.md. */
import { configMap } from '../kinds.ts'
import type { Case } from '../setting.ts'
import { withChild } from './answers.ts'

export const STATUS: Case[] = [
  {
    title:
      'the whole status is replaced, with observedGeneration whatever the hook returned for it',
    async play(stage) {
      stage.hooks.answer('sync', ({ parent }) =>
        parent.metadata.generation === 1
          ? { status: { phase: 'First', message: 'goes' }, children: [] }
          : { status: { phase: 'Second', observedGeneration: 99 }, children: [] },
      )
      await stage.start({})
      await stage.thing({ size: 1 })
      await stage.untilCalls('sync', 1)
      await stage.quiet()
      stage.note('first', (await stage.get('Thing', 'alpha'))?.status)
      await stage.patch('Thing', 'alpha', { spec: { size: 2 } })
      await stage.waitForCall(
        'sync',
        'the change',
        ({ parent }) => parent.metadata.generation === 2,
      )
      await stage.quiet()
      stage.note('second', (await stage.get('Thing', 'alpha'))?.status)
    },
  },
  {
    title: 'a status that has not changed is not written again',
    async play(stage) {
      await withChild(stage)
      const before = await stage.get('Thing', 'alpha')
      const calls = stage.hooks.of('sync').length
      await stage.patch('ConfigMap', 'one', { data: { other: 'change' } })
      await stage.untilCalls('sync', calls + 1)
      await stage.quiet()
      const after = await stage.get('Thing', 'alpha')
      stage.note(
        'same version',
        after?.metadata.resourceVersion === before?.metadata.resourceVersion,
      )
    },
  },
  {
    title: 'a status that the schema rejects fails the sync after the children are created',
    async play(stage) {
      stage.hooks.answer('sync', () => ({ status: { phase: 5 }, children: [configMap('one')] }))
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 3)
      stage.note('child', (await stage.get('ConfigMap', 'one')) !== undefined)
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status ?? null)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a status field unknown to the schema is pruned, and the sync succeeds',
    async play(stage) {
      stage.hooks.answer('sync', () => ({ status: { phase: 'Fine', strange: 1 }, children: [] }))
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 1)
      await stage.quiet()
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'with ignoreStatusChanges its own status write causes no sync, an annotation does',
    async play(stage) {
      stage.hooks.answer('sync', ({ parent }) => ({
        status: { phase: parent.metadata.annotations?.['touched'] ?? 'new' },
        children: [],
      }))
      await stage.start({ hooks: ['sync'] })
      await stage.thing()
      await stage.untilCalls('sync', 1)
      await stage.quiet()
      stage.note('calls at first', stage.hooks.of('sync').length)
      await stage.touch('once')
      await stage.untilCalls('sync', 2)
      await stage.quiet()
      stage.note('calls after the annotation', stage.hooks.of('sync').length)
      await stage.patch('Thing', 'alpha', { metadata: { labels: { new: 'label' } } })
      await stage.untilCalls('sync', 3)
      await stage.quiet()
      stage.note('calls after the label', stage.hooks.of('sync').length)
      await stage.patch('Thing', 'alpha', { metadata: { finalizers: ['contract/other'] } })
      await stage.quiet()
      stage.note('calls after a finalizer', stage.hooks.of('sync').length)
      await stage.patch('Thing', 'alpha', { spec: { size: 2 } })
      await stage.untilCalls('sync', 4)
      await stage.quiet()
      stage.note('calls after the spec', stage.hooks.of('sync').length)
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status)
    },
  },
  {
    title: 'without ignoreStatusChanges its own status write causes one more sync',
    async play(stage) {
      stage.hooks.answer('sync', () => ({ status: { phase: 'Fine' }, children: [] }))
      await stage.start({ hooks: ['sync'], parentResource: { ignoreStatusChanges: false } })
      await stage.thing()
      await stage.untilCalls('sync', 2)
      await stage.quiet()
      stage.note('calls', stage.hooks.of('sync').length)
      stage.note(
        'status received',
        stage.hooks.of('sync').map(({ body }) => body.parent.status ?? null),
      )
    },
  },
  {
    title: 'parents that exist before the controller are synced when it starts',
    async play(stage) {
      await stage.thing()
      await stage.thing({}, { name: 'beta' })
      stage.hooks.answer('sync', () => ({ status: { phase: 'Seen' }, children: [] }))
      await stage.start({ hooks: ['sync'] })
      await stage.untilCalls('sync', 2)
      await stage.quiet()
      const names = stage.hooks.of('sync').map(({ body }) => body.parent.metadata.name)
      stage.note('seen', names.sort())
    },
  },
]
