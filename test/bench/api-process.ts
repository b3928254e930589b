/** Main of the process that api.ts starts: serves, and reports its requests to the parent. */
import { serveFixedApi } from './api.ts'

const { url, calls } = await serveFixedApi(process.argv[2] ?? '')
process.on('message', () => process.send?.(calls))
// No client is left.
process.on('disconnect', () => process.exit(0))
process.send?.(url)
