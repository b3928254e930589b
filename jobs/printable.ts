/** Text of others on a terminal or in a log: engines, stores and tenants choose what is in it. */

/** Control characters, and those that change the order in which a terminal shows the others. */
const HIDDEN = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu

/** The same text with every character that a terminal would act on written as `\u{...}`. */
export function printable(text: string): string {
  return text.replaceAll(HIDDEN, (character) => {
    return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
  })
}
