// The directions in which folders may import each other (README of each folder), and syntax that is not used.
// Rules that need types are in oxlint.config.js.
import { defineConfig } from 'eslint/config'
import { parser } from 'typescript-eslint'

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

export default defineConfig(
  { ignores: ['node_modules', 'dist', '.tap', 'chart', '**/recorded'] },
  {
    files: ['**/*.ts'],
    languageOptions: { parser },
    rules: {
      'no-restricted-syntax': [
        'error',
        { selector: 'ExportDefaultDeclaration', message: 'Named exports only.' },
        { selector: 'ExportAllDeclaration', message: 'No re-export barrels.' },
        {
          selector: 'CallExpression[callee.property.name="notHas"]',
          message: 'Given the name of a field it always holds: look for the field itself.',
        },
      ],
    },
  },
  noImports(['crds/**/*.ts'], ['hooks', 'jobs', 'metacontroller', 'test']),
  noImports(['hooks/**/*.ts'], ['jobs', 'metacontroller', 'test']),
  noImports(['jobs/**/*.ts'], ['hooks', 'metacontroller', 'test'], outside, ['jobs/clients/**']),
  noImports(['jobs/clients/**/*.ts'], ['hooks', 'metacontroller', 'test'], []),
  noImports(['metacontroller/**/*.ts'], ['test']),
)
