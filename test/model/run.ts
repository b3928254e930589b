/**
 * `npm run test:model`: explores every state of the lives of all kinds, and prints the number of states and
 * the broken promises. `--short` selects the smallest world of each kind; names select kinds (`keys` for the keys of a cluster) or worlds;
 * `--most <n>` stops in each world after n states and reports it as CAPPED. `--walks <n>` takes n random walks
 * through each world instead, which merge no states, and compares worlds of the same text (`--seed`).
 */
import { parseArgs } from 'node:util'
import { explore, type Model } from './explore.ts'
import { KEY_WORLDS, keyModel } from './keys.ts'
import { lifeOf } from './life.ts'
import { newSeed } from '../fuzz/run.ts'
import { LIVES } from './lives.ts'
import { walk } from './unmerged.ts'
import { recordRun } from '../proof/record.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    short: { type: 'boolean', default: false },
    most: { type: 'string' },
    walks: { type: 'string' },
    seed: { type: 'string' },
  },
})
recordRun('models')
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
    await exploreWorld(`${kind}, ${name}`, lifeOf(life))
  }
}
for (const [name, world] of Object.entries(KEY_WORLDS).slice(0, values.short ? 1 : undefined)) {
  const isChosen =
    positionals.length === 0 || ['keys', name].some((one) => positionals.includes(one))
  if (isChosen && values.walks === undefined) await exploreWorld(`keys, ${name}`, keyModel(world))
}
if (values.walks !== undefined) {
  say(`${worlds} worlds walked through with seed ${seed}, ${broken} differences`)
  process.exit(broken === 0 ? 0 : 1)
}
const extent = capped === 0 ? 'explored completely' : `${capped} of them CAPPED`
say(`${states} states, ${steps} steps, ${worlds} worlds ${extent}, ${broken} broken`)
process.exit(broken === 0 ? 0 : 1)

async function exploreWorld<World>(name: string, model: Model<World>): Promise<void> {
  const found = await explore(model, most)
  worlds += 1
  states += found.states
  steps += found.steps
  broken += found.wrong.length + found.deadEnds.length
  capped += found.isWhole ? 0 : 1
  const end = found.isWhole ? 'all explored' : 'CAPPED: dead ends not determined'
  say(`${name}: ${found.states} states, ${found.steps} steps, ${end}`)
  for (const words of found.wrong) say(`  ${words}`)
  for (const path of found.deadEnds) say(`  no path to a goal from: ${path}`)
}

function say(line: string): void {
  process.stdout.write(`${line}\n`)
}
