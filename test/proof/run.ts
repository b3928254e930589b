/** A command of this project, its output shown while it comes and kept to its end. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'

export interface Ended {
  code: number | null
  output: string
}

/** Arguments of Node, from the root of the project. */
export async function run(args: string[], root: string): Promise<Ended> {
  const child = spawn(process.execPath, args, { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
  const pieces: Buffer[] = []
  child.stdout.on('data', (piece: Buffer) => {
    pieces.push(piece)
    process.stdout.write(piece)
  })
  const [code] = (await once(child, 'close')) as [number | null]
  return { code, output: Buffer.concat(pieces).toString() }
}
