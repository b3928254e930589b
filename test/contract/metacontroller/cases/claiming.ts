/** Names that are taken, children that come, go or change hands: facts sections 5.1 to 5.4. */
import { Reply } from '../hook-server.ts'
import { configMap } from '../kinds.ts'
import type { Case } from '../setting.ts'
import { keeping, withChild } from './answers.ts'

const ONE = configMap('one', { colour: 'red' })

export const CLAIMING: Case[] = [
  {
    title: 'a child whose name is already taken is ignored without an error',
    async play(stage) {
      await stage.create(configMap('one', { owner: 'another-client' }))
      stage.hooks.answer('sync', keeping(ONE))
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 1)
      await stage.quiet()
      await stage.noteObject('the other one', 'ConfigMap', 'one')
      await stage.noteObject('parent', 'Thing', 'alpha')
      stage.noteRequest('last request', stage.hooks.of('sync').at(-1)?.body)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a child that is being deleted is left alone and still observed',
    async play(stage) {
      stage.hooks.answer('sync', keeping(configMap('one', {}, { finalizers: ['contract/keep'] })))
      await stage.start({ methods: { ConfigMap: 'InPlace' } })
      await stage.thing()
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      await stage.delete('ConfigMap', 'one')
      stage.hooks.answer('sync', keeping(configMap('one', { new: 'wish' })))
      await stage.touch('once')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
      stage.noteRequest('last request', stage.hooks.of('sync').at(-1)?.body)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a child with another controller-uid label ends the sync before anything is written',
    async play(stage) {
      stage.hooks.answer(
        'sync',
        keeping(ONE, configMap('two', {}, { labels: { 'controller-uid': 'x' } })),
      )
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 3)
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a child in another namespace is created and never observed; the old one is deleted',
    async play(stage) {
      await withChild(stage)
      const other = `${stage.namespace}-other`
      await stage.create({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: other, namespace: '' },
      })
      const { made } = await stage.watchFor('ConfigMap', other, 'one')
      stage.hooks.answer('sync', keeping({ ...ONE, metadata: { name: 'one', namespace: other } }))
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'one')
      await made
      await stage.quiet()
      stage.note('children received', stage.hooks.of('sync').at(-1)?.body.children)
      await stage.noteEvents('events')
      await stage.deleteNamespace(other)
    },
  },
  {
    title: 'a child of a kind that is not declared is created, never observed and never deleted',
    async play(stage) {
      const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'one' } }
      stage.hooks.answer('sync', keeping(account))
      await stage.start({})
      await stage.thing()
      await stage.untilThere('ServiceAccount', 'one')
      await stage.quiet()
      await stage.noteObject('child', 'ServiceAccount', 'one')
      stage.hooks.answer('sync', keeping())
      await stage.touch('once')
      await stage.quiet()
      stage.note('children received', stage.hooks.of('sync').at(-1)?.body.children)
      stage.note('still there', (await stage.get('ServiceAccount', 'one')) !== undefined)
    },
  },
  {
    title: 'each parent observes its own children only',
    async play(stage) {
      stage.hooks.answer('sync', ({ parent }) => keeping(configMap(`of-${parent.metadata.name}`))())
      await stage.start({})
      await stage.thing()
      await stage.thing({}, { name: 'beta' })
      await stage.untilThere('ConfigMap', 'of-alpha')
      await stage.untilThere('ConfigMap', 'of-beta')
      await stage.quiet()
      for (const name of ['alpha', 'beta']) {
        const last = stage.hooks
          .of('sync')
          .findLast(({ body }) => body.parent.metadata.name === name)
        stage.note(name, Object.keys(last?.body.children['ConfigMap.v1'] ?? {}))
      }
    },
  },
  {
    title: 'an orphan with the label is adopted, and deleted once it is not desired',
    async play(stage) {
      stage.hooks.answer('sync', keeping(ONE))
      await stage.start({})
      const parent = await stage.thing()
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      const labels = { 'controller-uid': parent.metadata.uid ?? '' }
      stage.hooks.answer('sync', keeping(ONE, configMap('orphan')))
      await stage.create(configMap('orphan', { mine: 'no' }, { labels }))
      await stage.until('it is adopted', async () => {
        return (await stage.get('ConfigMap', 'orphan'))?.metadata.ownerReferences !== undefined
      })
      await stage.quiet()
      await stage.noteObject('adopted', 'ConfigMap', 'orphan')
      stage.hooks.answer('sync', keeping(ONE))
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'orphan')
      await stage.quiet()
      stage.note('children received', stage.hooks.of('sync').at(-1)?.body.children)
    },
  },
  {
    title: 'a child that loses the label is released',
    async play(stage) {
      await withChild(stage)
      await stage.patch('ConfigMap', 'one', { metadata: { labels: { 'controller-uid': 'other' } } })
      await stage.until('it is released', async () => {
        return (await stage.get('ConfigMap', 'one'))?.metadata.ownerReferences === undefined
      })
      await stage.quiet()
      await stage.noteObject('released', 'ConfigMap', 'one')
      stage.note('children received', stage.hooks.of('sync').at(-1)?.body.children)
      await stage.noteEvents('events')
    },
  },
  {
    title:
      'without generateSelector the selector of the parent counts, and an empty one is an error',
    async play(stage) {
      const labels = { app: 'a' }
      stage.hooks.answer('sync', keeping(configMap('one', {}, { labels })))
      await stage.start({ spec: { generateSelector: false } })
      await stage.thing()
      await stage.until('an event', async () => (await stage.events()).length > 0)
      stage.noteCalls('calls without a selector')
      await stage.noteEvents('events')
      await stage.patch('Thing', 'alpha', { spec: { selector: { matchLabels: labels } } })
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
    },
  },
  {
    title:
      'a child that changes during the call is not overwritten, but corrected by the next sync',
    async play(stage) {
      await withChild(stage, { methods: { ConfigMap: 'InPlace' } })
      let calls = 0
      stage.hooks.answer('sync', async () => {
        calls += 1
        if (calls === 1) await stage.patch('ConfigMap', 'one', { data: { meanwhile: 'yes' } })
        return keeping(configMap('one', { colour: 'blue' }))()
      })
      await stage.touch('once')
      await stage.until('it is brought right', async () => {
        return JSON.stringify((await stage.get('ConfigMap', 'one'))?.['data']).includes('blue')
      })
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a parent that is deleted during the call is no error',
    async play(stage) {
      stage.hooks.answer('sync', async () => {
        await stage.delete('Thing', 'alpha')
        return { status: { phase: 'Late' }, children: [] }
      })
      await stage.start({ hooks: ['sync'] })
      await stage.thing()
      await stage.untilGone('Thing', 'alpha')
      await stage.quiet()
      stage.note('calls', stage.hooks.of('sync').length)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a parent that is recreated under its name during the call does not get the status',
    async play(stage) {
      let calls = 0
      stage.hooks.answer('sync', async () => {
        calls += 1
        if (calls > 1) return new Reply(429, '', { 'retry-after': '600' })
        await stage.delete('Thing', 'alpha')
        await stage.thing({ namesake: true })
        return { status: { phase: 'Late' }, children: [] }
      })
      await stage.start({ hooks: ['sync'] })
      await stage.thing()
      await stage.untilCalls('sync', 2)
      await stage.quiet()
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status ?? null)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a child that is recreated under its name during the call is not deleted',
    async play(stage) {
      await withChild(stage)
      let calls = 0
      stage.hooks.answer('sync', async () => {
        calls += 1
        if (calls === 1) {
          await stage.delete('ConfigMap', 'one')
          await stage.create(configMap('one', { owner: 'another-client' }))
        }
        return { status: {}, children: [] }
      })
      await stage.touch('once')
      await stage.untilCalls('sync', 3)
      await stage.quiet()
      stage.note('data', (await stage.get('ConfigMap', 'one'))?.['data'])
      await stage.noteEvents('events')
    },
  },
  {
    title: 'objects that a deleted child owns are deleted with it',
    async play(stage) {
      await withChild(stage)
      const child = await stage.untilThere('ConfigMap', 'one')
      const { apiVersion, kind } = child
      const owner = { apiVersion, kind, name: 'one', uid: child.metadata.uid ?? '' }
      await stage.create(configMap('dependant', {}, { ownerReferences: [owner] }))
      stage.hooks.answer('sync', keeping())
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'one')
      await stage.untilGone('ConfigMap', 'dependant')
      stage.noteCalls('calls')
    },
  },
]
