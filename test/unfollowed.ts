/**
 * Preloaded into the processes of tests. tap follows every promise and every callback, to say in which
 * test an error was thrown that nobody caught: a fifth of all time went there. Unfollowed, such an error
 * ends the process with its stack, and its file has failed all the same.
 */
import hooks from 'node:async_hooks'
import { syncBuiltinESMExports } from 'node:module'

const none: hooks.AsyncHook = { enable: () => none, disable: () => none }

hooks.createHook = () => none
syncBuiltinESMExports()
