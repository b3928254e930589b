/**
 * `npm run test:model`: explores the lives of all kinds to their ends, and prints how many states there
 * are and what is wrong in them. With a number, so many states of each kind at most; with names, these.
 */
import { explore } from './explore.ts'
import { lifeOf } from './life.ts'
import { LIVES } from './lives.ts'

const [first = ''] = process.argv.slice(2)
const most = /^\d+$/.test(first) ? Number(first) : Infinity
const names = process.argv.slice(most === Infinity ? 2 : 3)

let states = 0
let broken = 0
for (const [kind, life] of Object.entries(LIVES)) {
  if (names.length > 0 && !names.includes(kind)) continue
  const found = await explore(lifeOf(life), most)
  states += found.states
  broken += found.wrong.length + found.deadEnds.length
  process.stdout.write(`${kind}: ${found.states} states, ${found.steps} steps\n`)
  for (const words of found.wrong) process.stdout.write(`  ${words}\n`)
  for (const path of found.deadEnds) process.stdout.write(`  no way on from: ${path}\n`)
}
process.stdout.write(`${states} states, ${broken} broken\n`)
process.exit(broken === 0 ? 0 : 1)
