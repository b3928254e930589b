import t from 'tap'
import { shortRun } from './short.ts'
import { reports } from './reports.ts'

await shortRun(t, reports)
