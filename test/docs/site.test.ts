/** The site of docs/: its nav has every page once, and its packages are pinned. Needs no Python. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { parse } from 'yaml'
import { pages, ROOT } from './pages.ts'

const read = (path: string) => readFileSync(ROOT + path, 'utf8')
// The slugify function of Python has a tag that only mkdocs resolves.
const site = parse(read('docs/mkdocs.yml'), { logLevel: 'silent' }) as {
  nav: Record<string, Record<string, string>[]>[]
  repo_url: string
}

t.test('the nav of the site has every page of docs/ exactly once', async (t) => {
  const named = site.nav
    .flatMap((group) => Object.values(group).flat())
    .flatMap((entry) => Object.values(entry))
  const paths = pages().map(({ path }) => path)
  const inDocs = paths.flatMap((path) => (path.startsWith('docs/') ? [path.slice(5)] : []))
  t.strictSame(named.toSorted(), inDocs.toSorted())
})

t.test('the nav has four groups', async (t) => {
  const groups = site.nav.flatMap((group) => Object.keys(group))
  t.strictSame(groups, ['Start', 'Operate', 'Reference', 'Develop'])
})

t.test(
  'links of the site to files outside docs/ lead to the repository of the README',
  async (t) => {
    t.ok(read('README.md').includes(`git clone ${site.repo_url} `), site.repo_url)
  },
)

t.test('every Python package of the site has one exact version', async (t) => {
  const lines = read('docs/requirements.txt').trim().split('\n')
  for (const line of lines) t.match(line, /^[A-Za-z0-9_-]+==\d+(\.\w+)*$/)
  t.ok(lines.some((line) => line.startsWith('mkdocs-material==')))
})
