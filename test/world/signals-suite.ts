/** A suite with something to end, for signals.test.ts. */
import t from 'tap'
import { shutDownOnSignal } from './signals.ts'

t.setTimeout(0)
shutDownOnSignal(async (signal) => {
  console.log(`${signal} heard`)
  await new Promise((resolve) => setTimeout(resolve, 100))
  console.log('all is ended')
})
await t.test('goes on for ever', { jobs: 2 }, async (t) => {
  await t.test('begins', async () => undefined)
  console.log('it runs')
  await new Promise((resolve) => setTimeout(resolve, 600_000))
})
