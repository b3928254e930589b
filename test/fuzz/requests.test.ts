import t from 'tap'
import { shortRun } from './short.ts'
import { requests } from './requests.ts'

await shortRun(t, requests)
