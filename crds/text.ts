/** Cutting texts, without regular expressions that would take quadratic time on hostile ones. */

/** The text without any of these characters at its end. */
export function trimmedEnd(text: string, characters: string): string {
  let end = text.length
  while (end > 0 && characters.includes(text.charAt(end - 1))) end -= 1
  return text.slice(0, end)
}
