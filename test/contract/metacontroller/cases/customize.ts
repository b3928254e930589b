/** Related objects: facts sections 2.3 and 2.4. */
import { Reply } from '../hook-server.ts'
import { configMap } from '../kinds.ts'
import type { Case, Setting } from '../setting.ts'
import type { Stage } from '../stage.ts'

const ALL: Setting = { hooks: ['sync', 'finalize', 'customize'] }
const CONFIG_MAPS = { apiVersion: 'v1', resource: 'configmaps' }

/** A parent that relates to the ConfigMap `friend` in its namespace, at rest. */
async function withFriend(stage: Stage, rule: object = {}): Promise<void> {
  await stage.create(configMap('friend', { colour: 'red' }))
  await stage.create(configMap('stranger'))
  stage.hooks.answer('customize', () => ({
    relatedResources: [{ ...CONFIG_MAPS, namespace: stage.namespace, names: ['friend'], ...rule }],
  }))
  stage.hooks.answer('sync', () => ({ status: { phase: 'Fine' }, children: [] }))
  await stage.start(ALL)
  await stage.thing({ size: 1 })
  await stage.untilCalls('sync', 1)
  await stage.quiet()
}

function wrongRule(what: string, rule: object): Case {
  return {
    title: `${what} fails the sync: the hook is not called, the parent gets a SyncError Event`,
    async play(stage) {
      stage.hooks.answer('customize', () => ({ relatedResources: [rule] }))
      await stage.start(ALL)
      await stage.thing()
      await stage.until('an event', async () => (await stage.events()).length > 0)
      stage.noteCalls('calls')
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteEvents('events')
    },
  }
}

export const CUSTOMIZE: Case[] = [
  {
    title: 'customize is called before sync, with controller and parent, once for each generation',
    async play(stage) {
      await withFriend(stage)
      const asked = stage.hooks.of('customize')[0]?.body
      stage.note('fields', Object.keys(asked ?? {}).sort())
      stage.note('parent received', asked?.parent)
      stage.noteCalls('calls')
      stage.note('times', stage.hooks.of('customize').length)
      await stage.touch('once')
      await stage.waitForCall('sync', 'the annotation', ({ parent }) => {
        return parent.metadata.annotations !== undefined
      })
      await stage.quiet()
      stage.note('times after an annotation', stage.hooks.of('customize').length)
      const calls = stage.hooks.calls.length
      await stage.patch('Thing', 'alpha', { spec: { size: 2 } })
      await stage.waitForCall(
        'sync',
        'the change',
        ({ parent }) => parent.metadata.generation === 2,
      )
      await stage.quiet()
      stage.note('times after the spec', stage.hooks.of('customize').length)
      stage.noteCalls('calls after the spec', calls)
    },
  },
  {
    title: 'related objects are listed by kind and namespace/name, also kinds without objects',
    async play(stage) {
      const { namespace } = stage
      await withFriend(stage)
      stage.note('related', stage.hooks.of('sync').at(-1)?.body.related)
      stage.hooks.answer('customize', () => ({
        relatedResources: [
          { ...CONFIG_MAPS, namespace, names: ['missing'] },
          { apiVersion: 'v1', resource: 'secrets', namespace, names: ['missing'] },
          { apiVersion: 'v1', resource: 'namespaces', names: [namespace] },
          { ...CONFIG_MAPS, namespace, labelSelector: { matchLabels: { is: 'friend' } } },
        ],
      }))
      await stage.create(configMap('labelled', {}, { labels: { is: 'friend' } }))
      await stage.patch('Thing', 'alpha', { spec: { size: 2 } })
      await stage.waitForCall(
        'sync',
        'the change',
        ({ parent }) => parent.metadata.generation === 2,
      )
      await stage.quiet()
      const { related = {} } = stage.hooks.of('sync').at(-1)?.body ?? {}
      const keys = Object.entries(related).map(([kind, objects]) => [kind, Object.keys(objects)])
      stage.note('kinds and keys', Object.fromEntries(keys))
    },
  },
  {
    title: 'a rule without namespace selects in every namespace',
    async play(stage) {
      const other = `${stage.namespace}-other`
      await stage.create({
        apiVersion: 'v1',
        kind: 'Namespace',
        metadata: { name: other, namespace: '' },
      })
      await stage.create(configMap('friend', { far: 'away' }, { namespace: other }))
      await withFriend(stage, { namespace: undefined })
      const { related = {} } = stage.hooks.of('sync').at(-1)?.body ?? {}
      const keys = Object.keys(related['ConfigMap.v1'] ?? {})
      // Earlier cases may have left some of theirs.
      stage.note('keys', keys.filter((key) => key.startsWith(stage.namespace)).sort())
      await stage.deleteNamespace(other)
    },
  },
  {
    title: 'a change of a related object causes a sync, a change of another object does not',
    async play(stage) {
      await withFriend(stage)
      const calls = stage.hooks.of('sync').length
      await stage.patch('ConfigMap', 'stranger', { data: { colour: 'green' } })
      await stage.quiet()
      stage.note('calls after the stranger', stage.hooks.of('sync').length - calls)
      await stage.patch('ConfigMap', 'friend', { data: { colour: 'green' } })
      await stage.waitForCall('sync', 'the change', ({ related }) =>
        JSON.stringify(related).includes('green'),
      )
      await stage.quiet()
      stage.note('calls after the friend', stage.hooks.of('sync').length - calls)
      await stage.delete('ConfigMap', 'friend')
      await stage.quiet()
      stage.note('calls after its end', stage.hooks.of('sync').length - calls)
      stage.note('related at the end', stage.hooks.of('sync').at(-1)?.body.related)
      stage.note('customize was asked', stage.hooks.of('customize').length)
    },
  },
  {
    title: 'an object that stops matching a selector is absent from the next request',
    async play(stage) {
      await withFriend(stage, {
        names: undefined,
        labelSelector: { matchLabels: { is: 'friend' } },
      })
      await stage.patch('ConfigMap', 'stranger', { metadata: { labels: { is: 'friend' } } })
      await stage.waitForCall('sync', 'the stranger', ({ related }) => {
        return related['ConfigMap.v1']?.[`${stage.namespace}/stranger`] !== undefined
      })
      await stage.quiet()
      await stage.patch('ConfigMap', 'stranger', { metadata: { labels: { is: null } } })
      await stage.quiet()
      stage.note('related', stage.hooks.of('sync').at(-1)?.body.related)
    },
  },
  wrongRule('names together with a selector', { ...CONFIG_MAPS, names: ['a'], labelSelector: {} }),
  wrongRule('namespace together with a namespaceSelector', {
    ...CONFIG_MAPS,
    namespace: 'default',
    namespaceSelector: {},
  }),
  wrongRule('a kind that is not there', { apiVersion: 'strange/v1', resource: 'thingummies' }),
  wrongRule('an unknown field in a rule', { ...CONFIG_MAPS, name: 'one' }),
  {
    title: 'a failing customize fails the sync: the sync hook is not called, nothing is changed',
    async play(stage) {
      await withFriend(stage)
      stage.hooks.answer('customize', () => new Reply(500, 'broken'))
      const calls = stage.hooks.calls.length
      await stage.patch('Thing', 'alpha', { spec: { size: 2 } })
      await stage.untilCalls('customize', stage.hooks.of('customize').length + 3)
      stage.noteCalls('calls', calls)
      stage.note('status', (await stage.get('Thing', 'alpha'))?.status)
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a list as the answer of customize is an error',
    async play(stage) {
      stage.hooks.answer('customize', () => [CONFIG_MAPS])
      await stage.start(ALL)
      await stage.thing()
      await stage.untilCalls('customize', 3)
      stage.noteCalls('calls')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'the answer of customize is cached for 20 minutes',
    expected: { 'times after 19 minutes': 1, 'times after 21 minutes': 2 },
    async play(stage) {
      await withFriend(stage)
      await stage.subject.pass(19 * 60)
      await stage.touch('before')
      await stage.quiet()
      stage.note('times after 19 minutes', stage.hooks.of('customize').length)
      await stage.subject.pass(2 * 60)
      await stage.touch('after')
      await stage.quiet()
      stage.note('times after 21 minutes', stage.hooks.of('customize').length)
    },
  },
]
