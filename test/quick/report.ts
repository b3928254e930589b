/** Reads the TAP of the process of `npm run test:quick`: failures in full, of the rest the numbers. */

/** Title of a test without a body after the last test of a file. */
export const END_OF_FILE = 'end of '

export interface Totals {
  passed: number
  failed: number
  skipped: number
  /** Files whose tests have ended. */
  files: string[]
  /** Those of them with a failure. */
  failing: string[]
}

export class Report {
  readonly totals: Totals = { passed: 0, failed: 0, skipped: 0, files: [], failing: [] }
  readonly #print: (text: string) => void
  /** Lines since the last result. */
  #lines: string[] = []
  #isFailure = false
  #failedBefore = 0

  constructor(print: (text: string) => void) {
    this.#print = print
  }

  /** One line of TAP. */
  add(line: string): void {
    const result = /^(not ok|ok) \d+ - (.*?)(?: # (SKIP|TODO|time=).*)?( \{)?$/.exec(line)
    if (result === null) {
      this.#keep(line)
      return
    }
    const [, outcome, title = '', directive] = result
    if (title.startsWith(END_OF_FILE)) this.#endFile(title.slice(END_OF_FILE.length))
    else if (outcome === 'not ok') this.#fail(line)
    else if (directive === 'SKIP') this.totals.skipped += 1
    else this.totals.passed += 1
    this.#isFailure = outcome === 'not ok'
    this.#lines = []
  }

  /** What follows a failure, up to the next test, explains it. */
  #keep(line: string): void {
    if (line.startsWith('# Subtest: ')) this.#isFailure = false
    if (this.#isFailure) this.#print(`${line}\n`)
    else this.#lines.push(line)
  }

  #fail(line: string): void {
    this.totals.failed += 1
    const failed = this.#lines.filter((one) => !/^ *ok \d+/.test(one))
    this.#print(`${[...failed, line].join('\n')}\n`)
  }

  #endFile(file: string): void {
    const { files, failing, failed } = this.totals
    files.push(file)
    if (failed > this.#failedBefore) {
      failing.push(file)
      this.#print(`FAILED: ${file}\n`)
    }
    this.#failedBefore = failed
  }
}
