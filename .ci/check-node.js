/**
 * `node .ci/check-node.js [VERSION]`: ends with 1 where this Node (or VERSION) cannot run the TypeScript files of
 * this repository, and says which one can. Plain JavaScript for Node 20: an older Node fails on the first
 * TypeScript file without a reason.
 */
const NEEDED = 24
const version = process.argv[2] ?? process.versions.node
if (Number(version.split('.')[0]) < NEEDED) {
  console.error(
    `This needs Node.js ${NEEDED}, but it is ${version}. On Linux and Windows "npm ci" installs it as an optional dependency; on macOS install Node.js ${NEEDED} yourself.`,
  )
  process.exitCode = 1
}
