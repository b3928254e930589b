/** Parses the documentation: blocks of code, links, headings. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export interface Page {
  /** Relative to the repository. */
  path: string
  text: string
  blocks: Block[]
  /** Text between backticks, outside blocks. */
  spans: string[]
  /** Targets of links, except links to other hosts. */
  links: string[]
  /** Anchors of the headings. */
  anchors: Set<string>
}

export interface Block {
  language: string
  text: string
}

const PAGES = [
  'README.md',
  'SECURITY.md',
  'docs/**/*.md',
  'chart/README.md',
  'crds/README.md',
  '*/README.md',
  'test/**/README.md',
]

export function pages(): Page[] {
  const paths = new Set(PAGES.flatMap((pattern) => globSync(pattern, { cwd: ROOT })))
  const own = [...paths].filter((path) => !/^(node_modules|dist)\//.test(path))
  return own.toSorted().map((path) => page(path, readFileSync(ROOT + path, 'utf8')))
}

function page(path: string, text: string): Page {
  const blocks = [...text.matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(
    ([, language = '', body = '']) => ({ language, text: body }),
  )
  const prose = text.replaceAll(/^```.*?^```$/gms, '')
  const links = [...prose.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => target)
  return {
    path,
    text,
    blocks,
    spans: [...prose.matchAll(/`([^`\n]+)`/g)].map(([, span = '']) => span),
    links: links.filter((target) => !/^[a-z]+:/.test(target)),
    anchors: new Set([...prose.matchAll(/^#+ (.*)$/gm)].map(([, title = '']) => anchorOf(title))),
  }
}

/** Shell blocks of docs/quickstart.md: the steps up to the restore, or those after them. */
export function quickstartBlocks(part: 'steps' | 'rest'): string {
  const text = readFileSync(`${ROOT}docs/quickstart.md`, 'utf8')
  const [steps = '', rest = ''] = text.split('## Look closer\n')
  const { blocks } = page('', part === 'steps' ? steps : rest)
  return blocks.flatMap(({ language, text }) => (language === 'sh' ? [text] : [])).join('')
}

/** The commands of the steps; entering the folder of the checkout is none. */
export function quickstartCommands(): string[][] {
  return commandsIn(quickstartBlocks('steps')).filter(([program]) => program !== 'cd')
}

/** The anchor that GitHub derives from a heading. */
function anchorOf(title: string): string {
  const words = title.toLowerCase().replaceAll(/[^\p{L}\p{N} _-]/gu, '')
  return words.trim().replaceAll(' ', '-')
}

/** The commands of a shell block, each as its words. Piped and chained commands are separate. */
export function commandsIn(text: string): string[][] {
  return text
    .replaceAll(/\\\n\s*/g, ' ')
    .split('\n')
    .map((line) => line.replace(/(^|\s)#.*$/, ''))
    .flatMap(chained)
    .map(words)
    .filter((command) => command.length > 0)
}

/** Separators within quotes and `$(...)` do not end a command. */
function chained(line: string): string[] {
  const parts = line.match(/(?:"[^"]*"|'[^']*'|\$\([^)]*\)|[^"'&|;]|&(?!&))+/g)
  return parts ?? []
}

function words(command: string): string[] {
  const found = command.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? []
  return found.map((word) => word.replaceAll(/^["']|["']$/g, '')).filter((word) => word !== '&')
}
