/**
 * The contract on the real engine, where ENGINE_BIN names it; RECORD=1 keeps what it did as the
 * truth for the double.
 */
import t from 'tap'
import { CASES } from './cases/all.ts'
import { play, record, recording, settingOf, sizesOf, type Case } from './case.ts'
import { realSubject } from './real.ts'
import { SIZES, type Subject } from './subject.ts'

const bin = process.env['ENGINE_BIN']
const recorded = process.env['RECORD'] === '1'
/** A part of the cases, by a pattern over their titles. */
const chosen = new RegExp(process.env['CASES'] ?? '')

if (bin === undefined) {
  t.pass('ENGINE_BIN names no engine: nothing to examine', { skip: true })
} else {
  t.setTimeout(900_000)
  const cases = CASES.filter(({ title }) => chosen.test(title))
  const configOf = ({ service = {}, env = {}, resharding = false }: Case) =>
    JSON.stringify({ service, env, resharding })
  const configs = [...new Set(cases.map(configOf))]
  const groupsOf = (all: Case[]) => {
    const shared = all.filter(({ changesPeers }) => changesPeers !== true)
    return [shared, ...all.filter((played) => !shared.includes(played)).map((played) => [played])]
  }
  for (const size of SIZES) {
    for (const config of configs) {
      const all = cases.filter(
        (played) => sizesOf(played).includes(size) && configOf(played) === config,
      )
      for (const group of groupsOf(all)) {
        const [first] = group
        if (first === undefined) continue
        t.test(`${size}, with ${config}`, { timeout: 600_000 }, async (t) => {
          const subject = await realSubject(bin, settingOf(first, size))
          t.teardown(() => subject.close())
          const version = await versionOf(subject)
          t.comment(`engine ${version}`)
          for (const played of group) {
            await t.test(played.title, async (t) => {
              const notes = await play(subject, settingOf(played, size), played)
              if (recorded) record(played, size, version, notes)
              t.strictSame(notes, recording(played)[size])
            })
          }
        })
      }
    }
  }
}

async function versionOf({ urls }: Subject): Promise<string> {
  const answer = await fetch(urls[0] ?? '')
  return ((await answer.json()) as { version: string }).version
}
