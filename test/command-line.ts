/** The command lines of programs of the tests: flags, help, and parts that are run alone. */
import { parseArgs, type ParseArgsConfig } from 'node:util'

/** What was given; nothing where help was asked for, which is printed. An unknown flag is an error. */
export function givenFlags<const Flags extends NonNullable<ParseArgsConfig['options']>>(
  usage: string,
  flags: Flags,
) {
  const { values } = parseArgs({ options: flags, strict: true })
  if ((values as { help?: boolean }).help !== true) return values
  process.stdout.write(usage)
  return undefined
}

/** Those that `--only` names, in their own order. */
export function chosenOf<Named extends { name: string }>(
  what: string,
  all: readonly Named[],
  names: readonly string[],
): Named[] {
  const unknown = names.find((name) => !all.some((one) => one.name === name))
  if (unknown !== undefined) throw new Error(`there is no ${what} ${unknown}: see --help`)
  return all.filter(({ name }) => names.includes(name))
}
