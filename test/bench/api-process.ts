/** Main of the process that api.ts starts: serves, and tells its parent what it was asked. */
import { serveFixedApi } from './api.ts'

const { url, calls } = await serveFixedApi(process.argv[2] ?? '')
process.on('message', () => process.send?.(calls))
// Nobody is left to be answered.
process.on('disconnect', () => process.exit(0))
process.send?.(url)
