import t from 'tap'
import { decisions } from './decisions.ts'
import { shortRun } from './short.ts'

await shortRun(t, decisions)
