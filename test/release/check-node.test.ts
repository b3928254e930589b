/** `.ci/check-node.js`: a Node that is too old is named before a script fails. */
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'

const ROOT = join(import.meta.dirname, '../..')

function checkNode(...args: string[]) {
  const { status, stderr } = spawnSync(
    process.execPath,
    [join(ROOT, '.ci/check-node.js'), ...args],
    {
      encoding: 'utf8',
    },
  )
  return { status, stderr }
}

t.test('the Node that npm ci installs is accepted', async (t) => {
  t.strictSame(checkNode(), { status: 0, stderr: '' })
  t.strictSame(checkNode('25.0.0'), { status: 0, stderr: '' })
})

t.test('an older Node is named, with the one that is needed', async (t) => {
  for (const version of ['20.11.1', '22.17.0', '23.9.0']) {
    const { status, stderr } = checkNode(version)
    t.equal(status, 1)
    t.match(stderr, `needs Node.js 24, but it is ${version}`)
  }
})

t.test('the commands of the README check it first', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  for (const name of ['demo', 'test']) {
    t.match(scripts[name], /^node \.ci\/check-node\.js && /, name)
  }
})
