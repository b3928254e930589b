/** What a hook receives, and what its answer means: see docs/metacontroller-notes.md. */
import { BROKEN, Reply, type HookBody } from '../hook-server.ts'
import { configMap, CONFIG_MAP, part } from '../kinds.ts'
import type { Case } from '../setting.ts'
import type { Stage } from '../stage.ts'

const ONE = configMap('one', { colour: 'red' })
const TWO = configMap('two')

export const keeping = (...children: object[]) => {
  return () => ({ status: { phase: 'Kept' }, children })
}

/** A parent with child `one` and a status, at rest. */
export async function withChild(stage: Stage, setting: Case['setting'] = {}): Promise<void> {
  stage.hooks.answer('sync', keeping(ONE))
  await stage.start(setting)
  await stage.thing({ size: 1 })
  await stage.untilThere('ConfigMap', 'one')
  await stage.until('the status is written', async () => {
    return (await stage.get('Thing', 'alpha'))?.status !== undefined
  })
  await stage.quiet()
}

/** What is left of child and status after a bad answer that was given at least twice. */
async function afterBadAnswer(stage: Stage, answer: (body: HookBody) => unknown): Promise<void> {
  await withChild(stage, stage.setting)
  const before = stage.hooks.of('sync').length
  stage.hooks.answer('sync', answer)
  await stage.touch('once')
  await stage.untilCalls('sync', before + 2)
  await stage.noteObject('child', 'ConfigMap', 'one')
  await stage.noteObject('parent', 'Thing', 'alpha')
  await stage.noteEvents('events')
}

function bad(what: string, answer: (body: HookBody) => unknown, setting = {}): Case {
  return {
    title: `${what} is an error: nothing is changed, the call is repeated, the parent gets a SyncError Event`,
    setting,
    play: (stage) => afterBadAnswer(stage, answer),
  }
}

export const ANSWERS: Case[] = [
  {
    title: 'the first sync gets the parent, every kind of child, related and finalizing',
    async play(stage) {
      await stage.start({})
      await stage.thing({ size: 1 }, { labels: { team: 'a' } })
      await stage.untilCalls('sync', 1)
      const body = stage.hooks.of('sync')[0]?.body
      stage.noteRequest('request', body)
      stage.note('fields', Object.keys(body ?? {}).sort())
      stage.note('controller', body?.controller.metadata.name)
      stage.note('content type', stage.hooks.calls[0]?.headers['content-type'])
    },
  },
  {
    title:
      'a 200 without children deletes all owned children, one without status clears the status',
    async play(stage) {
      stage.hooks.answer('sync', keeping(ONE, TWO, part('three', {})))
      await stage.start({})
      await stage.thing()
      await stage.untilThere('Part', 'three')
      await stage.untilThere('ConfigMap', 'two')
      await stage.quiet()
      stage.hooks.answer('sync', () => ({}))
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'one')
      await stage.untilGone('ConfigMap', 'two')
      await stage.untilGone('Part', 'three')
      await stage.quiet()
      await stage.noteObject('parent', 'Thing', 'alpha')
      stage.note('children received at the end', stage.hooks.of('sync').at(-1)?.body.children)
    },
  },
  {
    title: 'the answer null is valid and deletes every child',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer('sync', () => new Reply(200, 'null'))
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'one')
      await stage.quiet()
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteEvents('events')
    },
  },
  bad('an empty body', () => new Reply(200, '')),
  bad('a body that is no JSON', () => new Reply(200, 'no')),
  bad('an unknown field', () => ({ status: {}, children: [], dropped: [] })),
  bad('a field of another case', () => ({ Status: {}, Children: [] })),
  bad('a field written twice', () => new Reply(200, '{"status":{},"status":{},"children":[]}')),
  bad(
    'a status field written twice',
    () => new Reply(200, '{"status":{"phase":"a","phase":"b"},"children":[]}'),
  ),
  bad('a child without kind', () => ({
    status: {},
    children: [{ apiVersion: 'v1', metadata: { name: 'x' } }],
  })),
  bad('children that are no list', () => ({ status: {}, children: {} })),
  bad('a status that is no object', () => ({ status: 'fine', children: [] })),
  bad('resyncAfterSeconds as text', () => ({ children: [], resyncAfterSeconds: '5' })),
  bad('a 201', () => new Reply(201, '{}')),
  bad('a 204', () => new Reply(204)),
  bad('a connection that breaks', () => BROKEN),
  bad('a 500', () => new Reply(500, 'broken')),
  {
    title: 'a duplicate field in a child is no error',
    async play(stage) {
      const child =
        '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"data":{"a":"1","a":"2"}}'
      stage.hooks.answer('sync', () => new Reply(200, `{"status":{},"children":[${child}]}`))
      await stage.start({})
      await stage.thing()
      await stage.untilThere('ConfigMap', 'x')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'x')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'in loose mode an unknown field of the answer is ignored',
    async play(stage) {
      await withChild(stage, { webhook: { responseUnMarshallMode: 'loose' } })
      stage.hooks.answer('sync', () => ({ status: { phase: 'Loose' }, dropped: [] }))
      await stage.touch('once')
      await stage.untilGone('ConfigMap', 'one')
      await stage.quiet()
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'despite a child of an unknown kind the other children and the status are written',
    async play(stage) {
      const strange = { apiVersion: 'strange/v1', kind: 'Thingummy', metadata: { name: 'x' } }
      stage.hooks.answer('sync', keeping(strange, ONE, { ...strange, apiVersion: undefined }))
      await stage.start({})
      await stage.thing()
      await stage.untilThere('ConfigMap', 'one')
      await stage.untilCalls('sync', 4)
      await stage.noteObject('parent', 'Thing', 'alpha')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'null in the list of children crashes Metacontroller',
    async play(stage) {
      await withChild(stage)
      stage.hooks.answer('sync', () => ({ status: {}, children: [null] }))
      await stage.touch('once')
      await stage.until('it ends', async () => stage.crashed)
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteObject('parent', 'Thing', 'alpha')
    },
  },
  {
    title:
      'of two children with one name the last one wins; a missing namespace is that of the parent',
    async play(stage) {
      stage.hooks.answer(
        'sync',
        keeping(configMap('one', { from: 'first' }), {
          ...configMap('one', { from: 'second' }),
          metadata: { name: 'one', namespace: stage.namespace },
        }),
      )
      await stage.start({})
      await stage.thing()
      await stage.untilThere('ConfigMap', 'one')
      await stage.quiet()
      await stage.noteObject('child', 'ConfigMap', 'one')
      const call = await stage.waitForCall('sync', 'the child', ({ children }) => {
        return Object.keys(children[`${CONFIG_MAP.kind}.v1`] ?? {}).length > 0
      })
      stage.note('children received', call.body.children)
    },
  },
]
