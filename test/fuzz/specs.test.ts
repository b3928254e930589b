import t from 'tap'
import { shortRun } from './short.ts'
import { specs } from './specs.ts'

await shortRun(t, specs)
