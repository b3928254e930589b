/**
 * Every reason that is in the code: what is written to a field `reason` or passed as a parameter
 * of that name, as far as the compiler knows its text.
 */
import { globSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const WORD = /^[A-Z][A-Za-z]+$/
/** The hooks and `doctor` share why a bucket cannot be accessed. */
export const BUCKET_ACCESS = 'crds/storage.ts'

export interface Source {
  /** Within the repository. */
  path: string
  text: string
  /** Paths of the files it imports. */
  imports: string[]
  reasons: string[]
}

/** The files of hooks and jobs, and the access to buckets; clients have separate reasons. */
export function emittedReasons(): Source[] {
  const found = globSync('{hooks,jobs}/**/*.ts', { cwd: ROOT, exclude: ['jobs/clients/**'] })
  const paths = [...found, BUCKET_ACCESS]
  const files = globSync('{crds,hooks,jobs}/**/*.ts', { cwd: ROOT }).map((path) => ROOT + path)
  const options: ts.CompilerOptions = {
    ...{ target: ts.ScriptTarget.ES2024, module: ts.ModuleKind.NodeNext, strict: true },
    ...{ allowImportingTsExtensions: true, noEmit: true, types: [] },
    // Reasons are words of this operator; declarations of packages are skipped.
    noResolve: true,
  }
  const jsDocParsingMode = ts.JSDocParsingMode.ParseNone
  const host = { ...ts.createCompilerHost(options), jsDocParsingMode }
  const program = ts.createProgram(files, options, host)
  const sources = paths.flatMap((path) => {
    const file = program.getSourceFile(ROOT + path)
    return file === undefined ? [] : [{ path, file }]
  })
  const known: Known = {
    checker: program.getTypeChecker(),
    callees: new Set(program.getSourceFiles().filter(isOurs).flatMap(calleesIn)),
  }
  return sources.map(({ path, file }) => {
    const reasons = new Set(reasonsIn(file, known).filter((word) => WORD.test(word)))
    return { path, text: file.text, imports: importsOf(file, path), reasons: [...reasons] }
  })
}

interface Known {
  checker: ts.TypeChecker
  /** Names of the functions that have a parameter `reason`: to resolve every call takes seconds. */
  callees: ReadonlySet<string>
}

function isOurs({ fileName }: ts.SourceFile): boolean {
  return !fileName.includes('/node_modules/')
}

function calleesIn(file: ts.SourceFile): string[] {
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isParameter(node) && node.name.getText(file) === 'reason') {
      found.push(nameOf(node.parent, file))
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** A function expression has the name of the variable to which it is assigned. */
function nameOf({ name, parent }: ts.SignatureDeclaration, file: ts.SourceFile): string {
  if (name !== undefined) return name.getText(file)
  return ts.isVariableDeclaration(parent) ? parent.name.getText(file) : ''
}

function calleeOf({ expression }: ts.CallExpression, file: ts.SourceFile): string {
  return (ts.isPropertyAccessExpression(expression) ? expression.name : expression).getText(file)
}

function reasonsIn(file: ts.SourceFile, { checker, callees }: Known): string[] {
  const found: string[] = []
  const visit = (node: ts.Node): void => {
    if (ts.isPropertyAssignment(node) && node.name.getText(file) === 'reason') {
      found.push(...wordsOf(node.initializer, checker))
    } else if (ts.isShorthandPropertyAssignment(node) && node.name.text === 'reason') {
      const symbol = checker.getShorthandAssignmentValueSymbol(node)
      if (symbol !== undefined) found.push(...wordsIn(checker.getTypeOfSymbol(symbol)))
    } else if (ts.isCallExpression(node) && callees.has(calleeOf(node, file))) {
      const parameters = checker.getResolvedSignature(node)?.parameters ?? []
      const at = parameters.findIndex(({ name }) => name === 'reason')
      const argument = node.arguments[at]
      if (argument !== undefined) found.push(...wordsOf(argument, checker))
    }
    ts.forEachChild(node, visit)
  }
  visit(file)
  return found
}

/** An expression may be typed as a string where each of its branches is a word. */
function wordsOf(node: ts.Expression, checker: ts.TypeChecker): string[] {
  if (ts.isStringLiteralLike(node)) return [node.text]
  if (ts.isConditionalExpression(node)) {
    return [...wordsOf(node.whenTrue, checker), ...wordsOf(node.whenFalse, checker)]
  }
  if (ts.isBinaryExpression(node)) {
    return [...wordsOf(node.left, checker), ...wordsOf(node.right, checker)]
  }
  return wordsIn(checker.getTypeAtLocation(node))
}

function wordsIn(type: ts.Type): string[] {
  const parts = type.isUnion() ? type.types : [type]
  return parts.flatMap((part) => (part.isStringLiteral() ? [part.value] : []))
}

function importsOf(file: ts.SourceFile, path: string): string[] {
  return file.statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier)) {
      return []
    }
    const { text } = statement.moduleSpecifier
    return text.startsWith('.') ? [new URL(text, `file:///${path}`).pathname.slice(1)] : []
  })
}
