/** Preloaded into a test process: writes down which mutants its tests have come past. */
import { writeFileSync } from 'node:fs'

interface Namespace {
  mutantCoverage?: { static: Record<string, number> }
}

const file = process.env['MUTANTS_COVERED']
if (file !== undefined) {
  process.on('exit', () => {
    const { __stryker__: namespace } = globalThis as { __stryker__?: Namespace }
    const covered = Object.keys(namespace?.mutantCoverage?.static ?? {})
    writeFileSync(file, JSON.stringify(covered))
  })
}
