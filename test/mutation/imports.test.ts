import t from 'tap'
import { reachedBy } from './imports.ts'

t.test('a change reaches all that load the file, directly or through others', async (t) => {
  const root = t.testdir({
    'changed.ts': 'export const value = 1\n',
    'direct.ts': "import { value } from './changed.ts'\n",
    deep: { 'through.ts': "import {\n  other,\n  more,\n} from '../direct.ts'\n" },
    'again.ts': "export { value } from './direct.ts'\n",
    'later.ts': "const load = () => import('./changed.ts')\n",
    'typed.ts': "import type { Value } from './changed.ts'\n",
    'beside.ts': "import './typed.ts'\n",
  })
  const roots = ['deep/through.ts', 'again.ts', 'later.ts', 'typed.ts', 'beside.ts']
  t.strictSame(
    [...reachedBy('changed.ts', roots, root)].toSorted(),
    ['again.ts', 'changed.ts', 'deep/through.ts', 'direct.ts', 'later.ts'],
    'what is imported for its types only is not loaded',
  )
})
