import t from 'tap'
import { shortRun } from './short.ts'
import { listings } from './listings.ts'

await shortRun(t, listings)
