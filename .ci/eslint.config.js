// The directions in which folders may import each other (README of each folder), and syntax that is not used.
// Rules that need types are in oxlint.config.js.
import { defineConfig } from 'eslint/config'
import { parser } from 'typescript-eslint'
import { noSlowPatterns } from './slow-patterns.js'

const outside = [
  'undici',
  '@aws-sdk/*',
  '@kubernetes/client-node',
  'node:child_process',
  'child_process',
]

/** Imports a folder may not make: other layers, and doors to the outside it does not own. */
function noImports(files, layers, packages = outside, ignores = []) {
  const patterns = layers.map((layer) => ({
    regex: `^(\\.\\./)+${layer}/`,
    message: `${files[0].split('/')[0]} does not import ${layer}.`,
  }))
  if (packages.length > 0) {
    patterns.push({ group: packages, message: 'Only jobs/clients reaches outside the process.' })
  }
  return { files, ignores, rules: { 'no-restricted-imports': ['error', { patterns }] } }
}

const SYNTAX = [
  { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
  { selector: 'ExportAllDeclaration', message: 'No re-export barrels.' },
  {
    selector: 'CallExpression[callee.property.name="notHas"]',
    message: 'Given the name of a field it always holds: look for the field itself.',
  },
]

/** `t.match` with a list in what it compares: an argument itself, or in the fields of one. */
const LOOSE = ['> ArrayExpression.arguments', '> ObjectExpression.arguments ArrayExpression'].map(
  (list) => ({
    selector: `CallExpression[callee.object.name="t"][callee.property.name="match"] ${list}`,
    message: 'It matches a longer list too: use matchWhole of test/match-whole.ts.',
  }),
)

export default defineConfig(
  { ignores: ['node_modules', 'dist', '.tap', 'chart', '**/recorded'] },
  {
    files: ['**/*.ts'],
    languageOptions: { parser },
    rules: {
      'no-restricted-syntax': ['error', ...SYNTAX],
    },
  },
  {
    files: ['test/**/*.ts'],
    rules: { 'no-restricted-syntax': ['error', ...SYNTAX, ...LOOSE] },
  },
  {
    files: ['{crds,hooks,jobs,metacontroller}/**/*.ts'],
    plugins: { local: { rules: { 'no-slow-patterns': noSlowPatterns } } },
    rules: { 'local/no-slow-patterns': 'error' },
  },
  noImports(['crds/**/*.ts'], ['hooks', 'jobs', 'metacontroller', 'test']),
  noImports(['hooks/**/*.ts'], ['jobs', 'metacontroller', 'test']),
  noImports(['jobs/**/*.ts'], ['hooks', 'metacontroller', 'test'], outside, ['jobs/clients/**']),
  noImports(['jobs/clients/**/*.ts'], ['hooks', 'metacontroller', 'test'], []),
  noImports(['metacontroller/**/*.ts'], ['test']),
)
