import { runGroup } from './run-files.ts'

await runGroup('backup')
