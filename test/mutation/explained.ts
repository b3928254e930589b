/** Changes that no test need notice, and why: they do not change what anybody can see. */

export interface Explained {
  file: string
  /** Stryker's name of the kind of change, and what it put there, where that tells changes apart. */
  mutator: string
  replacement?: string
  why: string
}

const ZERO = 'an absent part counts as nothing, however that is written'
const WHOLE = 'bytes are whole numbers, and one decimal is all that is shown'

export const EXPLAINED: Explained[] = [
  { file: 'crds/duration.ts', mutator: 'StringLiteral', why: ZERO },
  { file: 'crds/duration.ts', mutator: 'ArrayDeclaration', why: ZERO },
  { file: 'crds/size.ts', mutator: 'StringLiteral', why: 'the last unit is always there' },
  {
    file: 'crds/size.ts',
    mutator: 'EqualityOperator',
    replacement: 'amount > 1023.95',
    why: WHOLE,
  },
  { file: 'crds/size.ts', mutator: 'ConditionalExpression', replacement: 'false', why: WHOLE },
  { file: 'crds/size.ts', mutator: 'Regex', why: WHOLE },
  {
    ...{ file: 'hooks/guard.ts', mutator: 'ConditionalExpression', replacement: 'false' },
    why: 'the quick check of a status only spares the search for words',
  },
  {
    ...{ file: 'hooks/guard.ts', mutator: 'ArrayDeclaration' },
    why: 'what is dropped besides has no name, and no child is of that name',
  },
]

export function explained(file: string, mutator: string, replacement = ''): string | undefined {
  return EXPLAINED.find(
    (one) =>
      one.file === file &&
      one.mutator === mutator &&
      (one.replacement ?? replacement) === replacement,
  )?.why
}
