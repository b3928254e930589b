/** A tar of a few files, as an engine streams one. */

const BLOCK = 512
/** Two of nothing are its end. */
const END = Buffer.alloc(2 * BLOCK)

export function tarOf(files: Record<string, Buffer>): Buffer {
  const parts = Object.entries(files).flatMap(([name, content]) => [
    headerOf(name, content.length),
    content,
    Buffer.alloc(-content.length & (BLOCK - 1)),
  ])
  return Buffer.concat([...parts, END])
}

function headerOf(name: string, size: number): Buffer {
  const header = Buffer.alloc(BLOCK)
  header.write(name, 0, 100, 'latin1')
  header.write('0000644\0', 100, 'latin1')
  header.write(`${size.toString(8).padStart(11, '0')}\0`, 124, 'latin1')
  header.write('0', 156, 'latin1')
  header.write('ustar  \0', 257, 'latin1')
  // The sum is taken with spaces in its own place.
  header.fill(' ', 148, 156)
  const sum = header.reduce((all, byte) => all + byte, 0)
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148, 'latin1')
  return header
}
