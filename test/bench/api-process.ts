/** Main of the process that api.ts starts: serves, and tells its parent what it was asked. */
import { serveSettledApi } from './api.ts'

const { url, calls } = await serveSettledApi(process.argv[2] ?? '')
process.on('message', () => process.send?.(calls))
// Nobody is left to be answered.
process.on('disconnect', () => process.exit(0))
process.send?.(url)
