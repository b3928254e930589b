/** A process for one slice of a run (side-by-side.ts): draws its cases and sends the result. */
import { fuzz } from './run.ts'
import type { Part } from './side-by-side.ts'
import { SUBJECTS } from './subjects.ts'

const { subject: name, isWorld, seed, count } = JSON.parse(process.argv[2] ?? '') as Part
const subject = SUBJECTS.find((one) => one.name === name)
if (subject === undefined) throw new Error(`there is no subject ${name}`)

const enough = new AbortController()
process.once('message', () => enough.abort())
const open = isWorld ? subject.inWorld : undefined
const fuzzed = await fuzz(subject, {
  ...{ seed, count, enough: enough.signal },
  ...(open !== undefined && { open }),
})
// Exit explicitly: a resource that a case left open, such as a timer, would keep the process alive.
process.send?.(fuzzed, () => process.exit())
