import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The flags of Node in the chart's Deployment, so that a process has the heap that the pod has. */
export function serviceFlags(): string[] {
  const file = join(import.meta.dirname, '../chart/templates/deployment.yaml')
  const [, args = ''] =
    /args:\n([^]*?)- metacontroller\/serve\.js/.exec(readFileSync(file, 'utf8')) ?? []
  const flags = [...args.matchAll(/^ +- (--\S+)$/gm)].map(([, flag = '']) => flag)
  if (flags.length === 0) throw new Error(`${file} sets no flags of Node`)
  return flags
}
