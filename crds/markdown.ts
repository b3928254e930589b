/** Markdown of generated pages. */

export function table(head: string[], rows: string[][]): string {
  const lines = [head, head.map(() => '---'), ...rows]
  return lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

export function escaped(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '\\<')
}
