/** Runs the command of a part, and reads its result. */
import { machine } from './machine.ts'
import type { Part } from './parts.ts'
import { provedOf } from './record.ts'
import { run } from './run.ts'
import type { Proved } from './section.ts'

export async function prove(
  part: Part,
  { root, isShort }: { root: string; isShort: boolean },
): Promise<Proved> {
  const command = [...part.command, ...(isShort ? part.short : [])]
  process.stdout.write(`\n=== ${part.title}\n`)
  const started = { command, run: machine(root) }
  const { code, output } = await run(command, root)
  const words = part.said(output)
  return provedOf(part, started, {
    holds: code === 0 && words !== undefined,
    words: words ?? `The command ended with ${code} and printed no result.`,
  })
}
