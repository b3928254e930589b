import t from 'tap'
import { shortRun } from './short.ts'
import { manifests } from './manifests.ts'

await shortRun(t, manifests)
