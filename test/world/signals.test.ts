import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import t from 'tap'

const SUITE = join(import.meta.dirname, 'signals-suite.ts')

for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  t.test(`a suite that gets ${signal} ends what it started, once, and dies of it`, async (t) => {
    const env = { PATH: process.env['PATH'] }
    const child = spawn(process.execPath, [SUITE], { env, stdio: ['ignore', 'pipe', 'ignore'] })
    t.teardown(() => child.kill('SIGKILL'))
    let output = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output += text
      // Once per line of output: users press Ctrl-C more than once.
      if (output.includes('it runs')) child.kill(signal)
    })
    t.strictSame(await once(child, 'close'), [null, signal])
    t.strictSame(output.match(/^(SIG\w+ heard|all is ended)$/gm), [
      `${signal} heard`,
      'all is ended',
    ])
  })
}
