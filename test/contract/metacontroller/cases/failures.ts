/** Waiting and failing: facts sections 3 and 7. */
import { setTimeout as delay } from 'node:timers/promises'
import { Reply } from '../hook-server.ts'
import { configMap } from '../kinds.ts'
import type { Case } from '../setting.ts'
import type { Stage } from '../stage.ts'
import { keeping, withChild } from './answers.ts'

const ONE = configMap('one', { colour: 'red' })

/** Seconds between the calls of sync, from the given one on. */
function pauses(stage: Stage, from: number): number[] {
  const times = stage.hooks.of('sync').map(({ at }) => at)
  return times
    .slice(from)
    .map((at, index) => (at - (times[from + index - 1] ?? at)) / 1000)
    .slice(1)
}

export const FAILURES: Case[] = [
  {
    title: 'a failing hook is called again after pauses that double',
    async play(stage) {
      await withChild(stage)
      const before = stage.hooks.of('sync').length
      stage.hooks.answer('sync', () => new Reply(500, 'broken'))
      await stage.touch('once')
      await stage.untilCalls('sync', before + 9)
      const waited = pauses(stage, before)
      // The last of nine: 5 ms doubled seven times.
      stage.note('the eighth pause is 0.64 s', Math.round((waited[7] ?? 0) * 10) / 10 >= 0.6)
      stage.note('and not much longer', (waited[7] ?? 9) < 0.9)
      stage.note('the first is next to nothing', (waited[0] ?? 9) < 0.2)
      stage.hooks.answer('sync', keeping(ONE))
      await stage.touch('twice')
      await stage.quiet()
      stage.noteRequest('request after recovery', stage.hooks.of('sync').at(-1)?.body)

      // A pause that began before it recovered still ends in a call.
      await stage.subject.pass(3)
      const recovered = stage.hooks.of('sync').length
      stage.hooks.answer('sync', () => new Reply(500, 'broken'))
      await stage.touch('thrice')
      await stage.untilCalls('sync', recovered + 2)
      stage.note('then next to nothing again', (pauses(stage, recovered)[0] ?? 9) < 0.2)
    },
  },
  {
    title:
      '429 with Retry-After delays the next call by that time, changes nothing and gives no Event',
    async play(stage) {
      await withChild(stage)
      const before = stage.hooks.of('sync').length
      let calls = 0
      stage.hooks.answer('sync', () => {
        calls += 1
        return calls === 1 ? new Reply(429, '', { 'retry-after': '2' }) : keeping(ONE)()
      })
      await stage.touch('once')
      await stage.untilCalls('sync', before + 2)
      await stage.quiet()
      const waited = stage.hooks.of('sync').slice(before, before + 2)
      const seconds = ((waited[1]?.at ?? 0) - (waited[0]?.at ?? 0)) / 1000
      stage.note('waited about 2 s', seconds > 1.9 && seconds < 2.5)
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteEvents('events')
    },
  },
  {
    title: '429 with a date in Retry-After delays the next call until then',
    async play(stage) {
      await withChild(stage)
      const before = stage.hooks.of('sync').length
      let calls = 0
      stage.hooks.answer('sync', () => {
        calls += 1
        const date = new Date(stage.subject.now() + 3000).toUTCString()
        return calls === 1 ? new Reply(429, '', { 'retry-after': date }) : keeping(ONE)()
      })
      await stage.touch('once')
      await stage.untilCalls('sync', before + 2)
      const waited = stage.hooks.of('sync').slice(before, before + 2)
      const seconds = ((waited[1]?.at ?? 0) - (waited[0]?.at ?? 0)) / 1000
      stage.note('waited 2 to 3 s', seconds > 1.9 && seconds < 3.5)
    },
  },
  {
    title: 'after 429 without Retry-After the hook is called again at once, repeatedly',
    async play(stage) {
      await withChild(stage)
      const before = stage.hooks.of('sync').length
      stage.hooks.answer('sync', () => new Reply(429))
      await stage.touch('once')
      await stage.untilCalls('sync', before + 20)
      stage.hooks.answer('sync', keeping(ONE))
      const asked = stage.hooks.of('sync').slice(before, before + 20)
      stage.note('in one second', (asked[19]?.at ?? 0) - (asked[0]?.at ?? 0) < 1000)
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.quiet()
      await stage.noteEvents('events')
    },
  },
  {
    title: 'a hook that exceeds its timeout is an error, and nothing is changed',
    async play(stage) {
      await withChild(stage, { webhook: { timeout: '1s' } })
      let calls = 0
      stage.hooks.answer('sync', async () => {
        calls += 1
        if (calls === 1) await delay(1500)
        return calls === 1 ? {} : keeping(ONE)()
      })
      const before = stage.hooks.of('sync').length
      await stage.touch('once')
      await stage.untilCalls('sync', before + 2)
      await stage.noteObject('child', 'ConfigMap', 'one')
      await stage.noteEvents('events')
    },
  },
  {
    title: 'the Event on the parent has the body of a failed answer',
    async play(stage) {
      stage.hooks.answer('sync', () => new Reply(500, 'the reason'))
      await stage.start({})
      await stage.thing()
      await stage.until('an event', async () => (await stage.events()).length > 0)
      const [event] = await stage.events()
      const { name, uid, ...about } = event?.['involvedObject'] as Record<string, unknown>
      stage.note('about', { name, kind: about['kind'], apiVersion: about['apiVersion'] })
      stage.note('about the parent', uid === (await stage.get('Thing', 'alpha'))?.metadata.uid)
      stage.note('status and body', /500.*the reason/.test(String(event?.['message'])))
      stage.note('status of the parent', (await stage.get('Thing', 'alpha'))?.status ?? null)
    },
  },
  {
    title: 'a hook is called with the credential of the Secret that the controller names',
    async play(stage) {
      await stage.create({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'credential' },
        stringData: { token: 'open-sesame' },
      })
      const secretRef = { name: 'credential', namespace: stage.namespace, key: 'token' }
      await stage.start({ webhook: { authorization: { secretRef } } })
      await stage.thing()
      await stage.untilCalls('sync', 1)
      stage.note('authorization', stage.hooks.of('sync')[0]?.headers['authorization'])
    },
  },
  {
    title: 'the next sync is after resyncAfterSeconds',
    async play(stage) {
      let calls = 0
      stage.hooks.answer('sync', () => {
        calls += 1
        return { status: {}, children: [], ...(calls === 1 && { resyncAfterSeconds: 1.5 }) }
      })
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 2)
      await stage.subject.pass(3)
      const waited = pauses(stage, 0)
      stage.note('calls', waited.length + 1)
      stage.note('about 1.5 s apart', (waited[0] ?? 0) > 1.4 && (waited[0] ?? 9) < 1.9)
    },
  },
  {
    title: 'a later resyncAfterSeconds makes the next call only earlier, and 0 does not cancel it',
    async play(stage) {
      const seconds = [2, 60, 0]
      let calls = 0
      stage.hooks.answer('sync', () => {
        const resyncAfterSeconds = seconds[calls] ?? 0
        calls += 1
        return { status: {}, children: [], resyncAfterSeconds }
      })
      await stage.start({})
      await stage.thing()
      await stage.untilCalls('sync', 1)
      await stage.quiet()
      await stage.touch('once')
      await stage.untilCalls('sync', 2)
      await stage.touch('twice')
      await stage.untilCalls('sync', 3)
      await stage.subject.pass(3)
      const times = stage.hooks.of('sync').map(({ at }) => at)
      const seconds_ = ((times[3] ?? 0) - (times[0] ?? 0)) / 1000
      stage.note('calls', times.length)
      stage.note('2 s after the first', seconds_ > 1.9 && seconds_ < 2.5)
    },
  },
  {
    title: 'resyncPeriodSeconds causes repeated calls, also with ignoreStatusChanges',
    async play(stage) {
      stage.hooks.answer('sync', () => ({ status: { phase: 'Same' }, children: [] }))
      await stage.start({ spec: { resyncPeriodSeconds: 1 } })
      await stage.thing()
      await stage.untilCalls('sync', 4)
      stage.note('asked', stage.hooks.of('sync').length >= 4)
    },
  },
  {
    title: 'every parent is synced again after 30 minutes, also with a longer resyncPeriodSeconds',
    expected: {
      'calls after 29 minutes': 1,
      'calls after 31 minutes': 2,
      'calls after 59 minutes': 2,
    },
    async play(stage) {
      stage.hooks.answer('sync', () => ({ status: { phase: 'Same' }, children: [] }))
      await stage.start({ spec: { resyncPeriodSeconds: 2000 } })
      await stage.thing()
      await stage.untilCalls('sync', 1)
      await stage.subject.pass(29 * 60)
      stage.note('calls after 29 minutes', stage.hooks.of('sync').length)
      await stage.subject.pass(2 * 60)
      stage.note('calls after 31 minutes', stage.hooks.of('sync').length)
      await stage.subject.pass(28 * 60)
      stage.note('calls after 59 minutes', stage.hooks.of('sync').length)
    },
  },
  {
    title: 'at most five parents are processed at the same time',
    async play(stage) {
      stage.hooks.answer('sync', async () => {
        await delay(400)
        return { status: {}, children: [] }
      })
      await stage.start({ hooks: ['sync'] })
      for (const name of ['a', 'b', 'c', 'd', 'e', 'f', 'g']) await stage.thing({}, { name })
      await stage.untilCalls('sync', 7)
      stage.note('at once', stage.hooks.mostAtOnce)
    },
  },
  {
    title: 'changes during a call cause one more call, and no two calls for a parent run at once',
    async play(stage) {
      await withChild(stage)
      const before = stage.hooks.of('sync').length
      stage.hooks.mostAtOnce = 0
      stage.hooks.answer('sync', async () => {
        await delay(700)
        return keeping(ONE)()
      })
      await stage.touch('a')
      await stage.untilCalls('sync', before + 1)
      await stage.touch('b')
      await stage.touch('c')
      await stage.touch('d')
      await stage.untilCalls('sync', before + 2)
      await stage.until('the call ends', async () => stage.hooks.underWay === 0)
      await stage.quiet()
      stage.note('calls', stage.hooks.of('sync').length - before)
      stage.note('at once', stage.hooks.mostAtOnce)
      stage.noteRequest('the last request', stage.hooks.of('sync').at(-1)?.body)
    },
  },
]
