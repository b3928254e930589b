/** The end of a parent: facts section 6. */
import { configMap } from '../kinds.ts'
import { Reply } from '../hook-server.ts'
import type { Case } from '../setting.ts'
import { keeping, withChild } from './answers.ts'

const ONE = configMap('one', { colour: 'red' })
const OTHER = 'contract/other'

export const FINALIZE: Case[] = [
  {
    title: 'the finalizer is added before the first sync',
    async play(stage) {
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 1)
      stage.note('finalizers', stage.hooks.of('sync')[0]?.body.parent.metadata.finalizers)
    },
  },
  {
    title: 'without a finalize hook there is no finalizer and deletion calls nothing',
    async play(stage) {
      await withChild(stage, { hooks: ['sync'] })
      stage.note('finalizers', (await stage.get('Thing', 'alpha'))?.metadata.finalizers ?? null)
      const calls = stage.hooks.calls.length
      await stage.delete('Thing', 'alpha')
      await stage.untilGone('Thing', 'alpha')
      await stage.untilGone('ConfigMap', 'one')
      await stage.quiet()
      stage.noteCalls('calls', calls)
    },
  },
  {
    title: 'deletion raises the generation and calls finalize, with children, until finalized',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer('finalize', () => ({
        status: { phase: 'Ending' },
        children: [ONE, configMap('cleaner')],
        finalized: false,
      }))
      await stage.delete('Thing', 'alpha')
      await stage.untilThere('ConfigMap', 'cleaner')
      await stage.quiet()
      stage.noteRequest('first request', stage.hooks.of('finalize')[0]?.body)
      await stage.noteObject('parent meanwhile', 'Thing', 'alpha')
      await stage.noteObject('a child made meanwhile', 'ConfigMap', 'cleaner')
      const calls = stage.hooks.of('finalize').length
      await stage.subject.pass(2)
      stage.note('asked again without a reason', stage.hooks.of('finalize').length > calls)
      stage.hooks.answer('finalize', () => ({
        status: {},
        children: [configMap('never')],
        finalized: true,
      }))
      await stage.touch('once')
      await stage.untilGone('Thing', 'alpha')
      await stage.untilGone('ConfigMap', 'one')
      await stage.quiet()
      await stage.noteObject('a child of the last answer', 'ConfigMap', 'never')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a failing finalize keeps the parent and its children',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer('finalize', () => new Reply(500, 'broken'))
      await stage.delete('Thing', 'alpha')
      await stage.untilCalls('finalize', 4)
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteEvents('events')
    },
  },
  {
    title:
      'in a terminating namespace no child is created, the status is written until finalized is true',
    async play(stage) {
      await withChild(stage)
      let finalized = false
      const children = [configMap('cleaner')]
      stage.hooks.answer('finalize', () => ({ status: { phase: 'Ending' }, children, finalized }))
      await stage.deleteNamespace(stage.namespace)
      await stage.untilCalls('finalize', 3)
      stage.note('cleaner', (await stage.get('ConfigMap', 'cleaner')) ?? null)
      stage.note('phase', (await stage.get('Thing', 'alpha'))?.status)
      finalized = true
      await stage.untilGone('Thing', 'alpha')
    },
  },
  {
    title: 'children that finalize no longer names are deleted',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer('finalize', ({ children }) => ({
        status: {},
        children: [],
        finalized: Object.keys(children['ConfigMap.v1'] ?? {}).length === 0,
      }))
      await stage.delete('Thing', 'alpha')
      await stage.untilGone('Thing', 'alpha')
      stage.note('child', (await stage.get('ConfigMap', 'one')) ?? null)
    },
  },
  {
    title: 'customize is called again for a deletion',
    async play(stage) {
      await withChild(stage, { hooks: ['sync', 'finalize', 'customize'] })
      const calls = stage.hooks.calls.length
      await stage.delete('Thing', 'alpha')
      await stage.untilGone('Thing', 'alpha')
      stage.noteCalls('calls', calls)
      const asked = stage.hooks.of('customize').at(-1)?.body.parent.metadata
      stage.note('deletion received', asked?.deletionTimestamp !== undefined)
    },
  },
  {
    title: 'finalized in the answer of a sync takes the finalizer away, and the next sync adds it',
    async play(stage) {
      await withChild(stage)
      let answered = 0
      stage.hooks.answer('sync', () => {
        answered += 1
        return { ...keeping(ONE)(), finalized: answered === 1 }
      })
      await stage.touch('once')
      await stage.until('the finalizer is gone', async () => {
        return (await stage.get('Thing', 'alpha'))?.metadata.finalizers === undefined
      })
      await stage.quiet()
      stage.note('without', (await stage.get('Thing', 'alpha'))?.metadata.finalizers ?? null)
      await stage.touch('twice')
      await stage.untilCalls('sync', stage.hooks.of('sync').length + 1)
      await stage.quiet()
      stage.note('again', (await stage.get('Thing', 'alpha'))?.metadata.finalizers)
      await stage.noteObject('child', 'ConfigMap', 'one')
    },
  },
  {
    title: 'a parent that another finalizer keeps is finalized again, its children are not changed',
    async play(stage) {
      await withChild(stage)
      await stage.patch('Thing', 'alpha', {
        metadata: { finalizers: [OTHER, 'metacontroller.io/compositecontroller-contract'] },
      })
      await stage.quiet()
      stage.hooks.answer('finalize', () => ({
        status: { phase: 'Done' },
        children: [configMap('never')],
        finalized: true,
      }))
      await stage.delete('Thing', 'alpha')
      await stage.untilCalls('finalize', 1)
      await stage.quiet()
      const calls = stage.hooks.of('finalize').length
      await stage.touch('once')
      await stage.untilCalls('finalize', calls + 1)
      await stage.quiet()
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteObject('a child of the answer', 'ConfigMap', 'never')
    },
  },
  {
    title:
      'while a parent is being deleted every change of it causes a call, also of its finalizers',
    async play(stage) {
      const finalizer = 'metacontroller.io/compositecontroller-contract'
      stage.hooks.answer('sync', keeping(ONE))
      stage.hooks.answer('finalize', keeping(ONE))
      await stage.start({})
      await stage.thing({}, { finalizers: [OTHER] })
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      await stage.delete('Thing', 'alpha')
      await stage.untilCalls('finalize', 1)
      await stage.quiet()
      const calls = stage.hooks.of('finalize').length
      await stage.patch('Thing', 'alpha', { metadata: { finalizers: [finalizer] } })
      await stage.quiet()
      stage.note('calls after it', stage.hooks.of('finalize').length - calls)
      stage.noteRequest('request', stage.hooks.of('finalize').at(-1)?.body)
    },
  },
  {
    title:
      'without a finalize hook a parent that another finalizer keeps is synced, not its children',
    async play(stage) {
      stage.hooks.answer('sync', keeping(ONE))
      await stage.start({ hooks: ['sync'] })
      await stage.thing({}, { finalizers: [OTHER] })
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      stage.hooks.answer('sync', () => ({ status: { phase: 'Ending' }, children: [] }))
      await stage.delete('Thing', 'alpha')
      await stage.waitForCall('sync', 'the deletion', ({ parent }) => {
        return parent.metadata.deletionTimestamp !== undefined
      })
      await stage.quiet()
      stage.note('finalizing', stage.hooks.of('sync').at(-1)?.body.finalizing)
      stage.note('child is there', (await stage.get('ConfigMap', 'one')) !== undefined)
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status)
    },
  },
  {
    title:
      'in a foreground deletion finalize is called, and children are not changed until they are gone',
    async play(stage) {
      stage.hooks.answer('sync', keeping(configMap('one', {}, { finalizers: [OTHER] })))
      await stage.start({})
      await stage.thing()
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      let finalized = false
      stage.hooks.answer('finalize', () => ({
        status: { phase: 'Ending' },
        children: [configMap('cleaner')],
        finalized,
      }))
      await stage.delete('Thing', 'alpha', 'Foreground')
      await stage.untilCalls('finalize', 1)
      await stage.quiet()
      stage.note('finalizers meanwhile', (await stage.get('Thing', 'alpha'))?.metadata.finalizers)
      await stage.noteObject('cleaner meanwhile', 'ConfigMap', 'cleaner')
      await stage.patch('ConfigMap', 'one', { metadata: { finalizers: null } })
      await stage.untilGone('ConfigMap', 'one')
      await stage.until('the cleaner is made', async () => {
        await stage.touch(String(stage.subject.now()))
        return (await stage.get('ConfigMap', 'cleaner')) !== undefined
      })
      stage.note('finalizers then', (await stage.get('Thing', 'alpha'))?.metadata.finalizers)
      finalized = true
      await stage.touch('last')
      await stage.untilGone('Thing', 'alpha')
    },
  },
  {
    title: 'a deletion that orphans releases the children and calls finalize',
    async play(stage) {
      await withChild(stage)
      let answered = 0
      stage.hooks.answer('finalize', () => {
        answered += 1
        // Not named it would be deleted: the cache may still show it as owned.
        return { status: {}, children: [ONE], finalized: false }
      })
      await stage.delete('Thing', 'alpha', 'Orphan')
      await stage.until('the child is let go', async () => {
        return (await stage.get('ConfigMap', 'one'))?.metadata.ownerReferences === undefined
      })
      await stage.quiet()
      stage.note('finalize was called', answered > 0)
      stage.hooks.answer('finalize', () => ({ status: {}, children: [ONE], finalized: true }))
      await stage.touch('once')
      await stage.untilGone('Thing', 'alpha')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
    },
  },
  {
    title: 'a parent that a selector no longer selects is finalized without being deleted',
    async play(stage) {
      stage.hooks.answer('sync', keeping(ONE))
      stage.hooks.answer('finalize', () => ({ status: {}, children: [], finalized: true }))
      await stage.start({ parentResource: { labelSelector: { matchLabels: { on: 'yes' } } } })
      await stage.thing({}, { labels: { on: 'yes' } })
      await stage.thing({}, { name: 'beta' })
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      const calls = stage.hooks.calls.length
      await stage.patch('Thing', 'alpha', { metadata: { labels: { on: null } } })
      await stage.untilGone('ConfigMap', 'one')
      await stage.quiet()
      stage.noteCalls('calls', calls)
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteObject('never selected', 'Thing', 'beta')
    },
  },
]
