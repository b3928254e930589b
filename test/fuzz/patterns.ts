/** Every regular expression of the sources, and texts that would make a bad one slow. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'

export interface Found {
  /** Path and line. */
  where: string
  pattern: RegExp
}

const ROOT = join(import.meta.dirname, '../..')
const SOURCES = ['crds', 'hooks', 'jobs', 'metacontroller'].map((folder) => `${folder}/**/*.ts`)

/** Literals, and the patterns of schemas, which are compiled as they stand. */
export function patternsOfSources(): Found[] {
  return globSync(SOURCES, { cwd: ROOT })
    .toSorted()
    .flatMap((path) => patternsIn(path, readFileSync(join(ROOT, path), 'utf8')))
}

export function patternsIn(path: string, text: string): Found[] {
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const found: Found[] = []
  const add = (node: ts.Node, source: string, flags = '') => {
    const { line } = file.getLineAndCharacterOfPosition(node.getStart())
    found.push({ where: `${path}:${line + 1}`, pattern: new RegExp(source, flags) })
  }
  const visit = (node: ts.Node): void => {
    if (ts.isRegularExpressionLiteral(node)) {
      const [, source = '', flags = ''] = /^\/([^]*)\/(\w*)$/.exec(node.text) ?? []
      // Sticky or global ones remember where they were.
      add(node, source, flags.replaceAll(/[gy]/g, ''))
    } else if (isPattern(node) && ts.isStringLiteralLike(node.initializer)) {
      add(node, node.initializer.text)
    } else if (isConstant(node) && ts.isStringLiteralLike(node.initializer)) {
      add(node, node.initializer.text)
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** `pattern: '...'` in a schema. */
function isPattern(node: ts.Node): node is ts.PropertyAssignment {
  return ts.isPropertyAssignment(node) && node.name.getText() === 'pattern'
}

/** `const ..._PATTERN = '...'`. */
function isConstant(
  node: ts.Node,
): node is ts.VariableDeclaration & { initializer: ts.Expression } {
  return (
    ts.isVariableDeclaration(node) &&
    node.initializer !== undefined &&
    node.name.getText().endsWith('PATTERN')
  )
}

const CLASSES = [' ', '0', 'a', 'A', '_', '-', '.', '/', ':', '"', '<', '\\', '\n', 'é']
const ENDS = ['', '\u0000', '!', ' ', '\n!']

/** Pieces that, repeated, may make a search begin again and again. */
export function piecesFor({ source }: RegExp): string[] {
  const plain = source
    .replaceAll(/\\[dDwWsSbBpPuxkcfrtnv0-9]/g, '\u0000')
    .replaceAll(/\\(.)/g, '$1')
  const words = plain.split(/[\u0000()[\]{}*+?|^$.]+/).filter((word) => word !== '')
  const letters = new Set(
    [...CLASSES, ...Array.from(plain.slice(0, 200))].filter((one) => one !== '\u0000'),
  )
  const pairs = words.flatMap((word) => [word, `${word} `, `${word}0`, `0${word}`, `a${word}`])
  return [...new Set([...letters, ...pairs])]
}

export function textsFor(pattern: RegExp, piece: string, length: number): string[] {
  const text = piece.repeat(Math.ceil(length / piece.length))
  const [, prefix = ''] = /^\^?([\w"'</ -]+)/.exec(pattern.source) ?? []
  // Not at the start of the text, where another alternative may match it at once.
  const inside = `x${text}!`
  return [
    inside,
    ...ENDS.flatMap((end) => [text + end, ...(prefix === '' ? [] : [prefix + text + end])]),
  ]
}

/** Up to this length only what grows exponentially takes any time. */
const SHORT = 40
const LENGTHS = [16, 24, 28, 34, SHORT, 100, 400, 1600, 6400, 25_600]
/** CPU time from which the growth is looked at, in microseconds: linear searches never take it. */
const NOTICED = 20_000
/** Four times the length: four times the time where it is linear, sixteen where it is quadratic. */
const LINEAR = 9

/** The piece that makes a pattern slow out of proportion; undefined when there is none. */
export function slowPiece(pattern: RegExp): string | undefined {
  return piecesFor(pattern).find((piece) => {
    let before: number[] = []
    for (const length of LENGTHS) {
      const times: number[] = []
      // The first text that is slow decides: the others may take as long.
      for (const [at, text] of textsFor(pattern, piece, length).entries()) {
        const time = cpuTime(() => pattern.test(text))
        times.push(time)
        if (time < NOTICED) continue
        if (length <= SHORT) return true
        // Once more: the first time it may have been compiled as well.
        const again = cpuTime(() => pattern.test(text))
        if (again > LINEAR * Math.max(before[at] ?? 0, 1000)) return true
      }
      before = times
    }
    return false
  })
}

function cpuTime(run: () => unknown): number {
  const before = process.threadCpuUsage()
  run()
  const { user, system } = process.threadCpuUsage(before)
  return user + system
}
