/** Where a source only logs: a change in what a log line says is no change in what is done. */
import ts from 'typescript'

export interface Range {
  from: number
  to: number
}

const LEVELS = new Set(['trace', 'debug', 'info', 'warn', 'error'])

/** Arguments of calls like `log.info(...)` and `tools.log.warn(...)`. */
export function loggedIn(text: string): Range[] {
  const source = ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true)
  const found: Range[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node) && isLogCall(node.expression)) {
      found.push({ from: node.arguments.pos, to: node.arguments.end })
      return
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return found
}

export function isLogged(ranges: readonly Range[], from: number, to: number): boolean {
  return ranges.some((range) => from >= range.from && to <= range.to)
}

function isLogCall(callee: ts.Expression): boolean {
  if (!ts.isPropertyAccessExpression(callee) || !LEVELS.has(callee.name.text)) return false
  const { expression } = callee
  const holder = ts.isPropertyAccessExpression(expression) ? expression.name : expression
  return ts.isIdentifier(holder) && holder.text === 'log'
}
