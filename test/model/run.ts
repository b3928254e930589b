/**
 * `npm run test:model`: explores the lives of all kinds to their ends, and prints how many states there
 * are and what is wrong in them. `--short` takes the smallest world of each kind; names, those kinds or
 * worlds; `--most <n>` stops in each world after so many states, and says so. `--walks <n>` explores nothing: it
 * walks at random so often through each world, unmerged, and compares what the same text hides (`--seed`).
 */
import { parseArgs } from 'node:util'
import { explore } from './explore.ts'
import { lifeOf } from './life.ts'
import { newSeed } from '../fuzz/run.ts'
import { LIVES } from './lives.ts'
import { walk } from './unmerged.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    most: { type: 'string' },
    walks: { type: 'string' },
    seed: { type: 'string' },
  },
})
const STEPS_OF_A_WALK = 80
const seed = values.seed === undefined ? newSeed() : Number(values.seed)
const most = values.most === undefined ? Infinity : Number(values.most)

let worlds = 0
let states = 0
let steps = 0
let broken = 0
let capped = 0
for (const [kind, lives] of Object.entries(LIVES)) {
  for (const [name, life] of Object.entries(lives).slice(0, values.short ? 1 : undefined)) {
    if (positionals.length > 0 && !positionals.some((one) => one === kind || one === name)) continue
    if (values.walks !== undefined) {
      const how = { seed, walks: Number(values.walks), length: STEPS_OF_A_WALK }
      const { compared, differences } = await walk(lifeOf(life), how)
      worlds += 1
      broken += differences.length
      say(`${kind}, ${name}: ${compared} worlds compared with another of the same text`)
      for (const words of differences) say(`  ${words}`)
      continue
    }
    const found = await explore(lifeOf(life), most)
    worlds += 1
    states += found.states
    steps += found.steps
    broken += found.wrong.length + found.deadEnds.length
    capped += found.isWhole ? 0 : 1
    const end = found.isWhole ? 'all of them' : 'CAPPED: no dead ends judged'
    say(`${kind}, ${name}: ${found.states} states, ${found.steps} steps, ${end}`)
    for (const words of found.wrong) say(`  ${words}`)
    for (const path of found.deadEnds) say(`  no way on from: ${path}`)
  }
}
if (values.walks !== undefined) {
  say(`${worlds} worlds walked through with seed ${seed}, ${broken} differences`)
  process.exit(broken === 0 ? 0 : 1)
}
const extent = capped === 0 ? 'to their ends' : `${capped} of them CAPPED`
say(`${states} states, ${steps} steps, ${worlds} worlds ${extent}, ${broken} broken`)
process.exit(broken === 0 ? 0 : 1)

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
