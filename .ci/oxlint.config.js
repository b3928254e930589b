// Lint rules of typescript-eslint's strict set, by a linter that asks the types a tenth of the time.
import tseslint from 'typescript-eslint'

const UNSUPPORTED = /no-unsafe-(class-instance|enum)-assignment$/

/** Named as oxlint names them, without what the set turns off and what oxlint does not support. */
const strict = Object.fromEntries(
  tseslint.configs.strictTypeChecked
    .flatMap(({ rules = {} }) => Object.entries(rules))
    .filter(([name, setting]) => setting !== 'off' && !UNSUPPORTED.test(name))
    .map(([name, setting]) => [name.replace('@typescript-eslint/', 'typescript/'), setting]),
)

export default {
  options: { typeAware: true },
  plugins: ['typescript', 'import'],
  categories: { correctness: 'off' },
  ignorePatterns: ['**/dist', '**/recorded', '**/*.js'],
  rules: {
    ...strict,
    'typescript/switch-exhaustiveness-check': 'error',
    'typescript/restrict-template-expressions': ['error', { allowNumber: true }],
    'typescript/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
    'typescript/require-await': 'off',
    // Imports of types count: a file can be read after those it imports. Not in an override: its patterns would be relative
    // to the folder of this file.
    'import/no-cycle': ['error', { ignoreTypes: false }],
  },
  overrides: [
    {
      files: ['**/test/**/*.ts'],
      rules: { 'typescript/no-floating-promises': 'off', 'import/no-cycle': 'off' },
    },
  ],
}
