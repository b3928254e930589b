/**
 * Preloaded into test processes before tap's own modules. It switches off parts of tap that take longer
 * than most tests and that this project does not use.
 */
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

// tap follows every promise and callback, to name the test in which an uncaught error was thrown: a fifth
// of all run time. Without it an uncaught error ends the process with its stack, and its file fails as well.
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
