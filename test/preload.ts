/**
 * Preloaded into the processes of tests, before anything of tap's: of what tap does in each of them, what
 * takes longer than most tests do, and what nobody here asks for, is left out.
 */
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

// Every promise and callback is followed, to say in which test an error was thrown that nobody caught: a
// fifth of all time. Unfollowed it ends the process with its stack, and its file has failed all the same.
const none: hooks.AsyncHook = { enable: () => none, disable: () => none }
hooks.createHook = () => none
syncBuiltinESMExports()

// Each module is looked into for its source map, those of packages too. Stripped types move nothing.
process.setSourceMapsEnabled(false)
process.setSourceMapsEnabled = () => undefined
process.env['_TAPJS_PROCESSINFO_EXCLUDE_'] = String(
  /(^(node|tapmock):|[\\/](\.tap|node_modules|tap-snapshots)[\\/])/,
)

// What a test starts is on its own.
delete process.env['NODE_OPTIONS']
