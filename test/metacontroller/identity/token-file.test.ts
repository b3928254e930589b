import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { tokenFileReader } from '../../../metacontroller/identity/hook-credentials.ts'

t.test('the file holds the current and the previous token, and is read again', async (t) => {
  const path = join(t.testdir({ tokens: 'new\nold\n' }), 'tokens')
  let now = 0
  const tokens = tokenFileReader(path, () => new Date(now))
  t.strictSame(tokens(), ['new', 'old'])
  writeFileSync(path, 'newer\r\nnew')
  t.strictSame(tokens(), ['new', 'old'], 'not on every call')
  now = 5_000
  t.strictSame(tokens(), ['newer', 'new'])
})

t.test('a file that is emptied or gone later does not open the hooks', async (t) => {
  const path = join(t.testdir({ tokens: 'secret' }), 'tokens')
  let now = 0
  const tokens = tokenFileReader(path, () => new Date(now))
  writeFileSync(path, ' \n')
  now += 5_000
  t.strictSame(tokens(), ['secret'])
  rmSync(path)
  now += 5_000
  t.strictSame(tokens(), ['secret'])
})

t.test('without a token the service does not start', async (t) => {
  const folder = t.testdir({ empty: '\n\n' })
  t.throws(() => tokenFileReader(join(folder, 'empty'), () => new Date()), {
    message: /^HOOK_TOKEN_FILE: .* contains no token$/,
  })
  t.throws(() => tokenFileReader(join(folder, 'absent'), () => new Date()), { code: 'ENOENT' })
})
