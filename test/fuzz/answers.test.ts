import t from 'tap'
import { shortRun } from './short.ts'
import { answers } from './answers.ts'

await shortRun(t, answers)
