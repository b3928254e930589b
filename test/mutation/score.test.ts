import t from 'tap'
import { isComplete, scoredFrom, scoreOf, type Mutant } from './score.ts'

const FILE = 'hooks/answer-validation.ts'
const mutant = (status: string): Mutant => ({
  ...{ mutatorName: 'StringLiteral', replacement: '"never explained"', status },
  location: { start: { line: 1, column: 1 }, end: { line: 1, column: 2 } },
})
const score = (...statuses: string[]) =>
  scoreOf([scoredFrom(statuses.map(mutant), { file: FILE, of: 'digest' })])

t.test('a change that no test detects and no explanation covers fails the run', async (t) => {
  t.equal(isComplete(score('Killed', 'Timeout')), true)
  t.equal(isComplete(score('Killed', 'CompileError', 'Ignored')), true)
  t.equal(isComplete(score('Killed', 'Survived')), false)
  t.equal(isComplete(score('Killed', 'NoCoverage')), false)
  const many = Array.from({ length: 3000 }, () => 'Killed')
  const almost = score(...many, 'Survived')
  t.equal(almost.percent, 100, 'the percentage is rounded')
  t.equal(isComplete(almost), false, 'the gate is not')
})
