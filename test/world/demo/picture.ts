/**
 * `node test/world/demo/picture.ts` takes the tour of `npm run demo` in a terminal of `script` and writes
 * docs/pictures/demo.svg: frames that were really drawn, one after the other.
 */
import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

const ROOT = join(import.meta.dirname, '../../..')
const PICTURE = join(ROOT, 'docs/pictures/demo.svg')
const [COLUMNS, ROWS] = [118, 27]
const FRAMES = 18
/** What the demo prints when it waits for a key to leave. */
const END = 'That was the tour.'
const SECONDS_EACH = 2.5
/** Of one character, in pixels. */
const CELL = { width: 7.2, height: 15 }
const MARGIN = 12

/** Every screen that the demo drew, as its lines. */
export function framesIn(recording: string): string[][] {
  const drawn = recording.split('\x1b[H').slice(1)
  const screens = drawn.map((text) => text.split('\x1b[?1049l')[0]?.replaceAll(CONTROL, '') ?? '')
  return screens.map((text) => text.split('\r\n').map((line) => line.trimEnd()))
}

/** This many frames, evenly spaced, each different from the one before. */
export function chosen(frames: string[][], count: number): string[][] {
  const different = frames.filter((frame, at) => textOf(frame) !== textOf(frames[at - 1]))
  const step = Math.max(1, (different.length - 1) / (count - 1))
  const picked = Array.from({ length: count }, (_, at) => different[Math.round(at * step)])
  return picked.filter((frame) => frame !== undefined)
}

export function pictureOf(frames: string[][]): string {
  const width = Math.ceil(COLUMNS * CELL.width + 2 * MARGIN)
  const height = ROWS * CELL.height + 2 * MARGIN
  const total = frames.length * SECONDS_EACH
  const share = (100 / frames.length).toFixed(3)
  const groups = frames.map((lines, at) => {
    const delay = (at * SECONDS_EACH - total).toFixed(1)
    return `<g class="f" style="animation-delay:${delay}s">\n${lines.map(lineOf).join('')}</g>`
  })
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="ui-monospace, Menlo, Consolas, DejaVu Sans Mono, monospace" font-size="12" fill="#d8dee9">
<style>${styleOf(total, share)}</style>
<rect width="100%" height="100%" rx="6" fill="#1d2330"/>
${groups.join('\n')}
</svg>
`
}

/** Codes of a terminal. */
const CONTROL = /\x1b\[[0-9?;]*[A-Za-z]/g

/** With reduced motion the last frame is shown. */
function styleOf(seconds: number, share: string): string {
  return [
    `.f{visibility:hidden;animation:f ${seconds}s step-end infinite}`,
    `@keyframes f{0%{visibility:visible}${share}%{visibility:hidden}}`,
    '@media(prefers-reduced-motion:reduce){.f{animation:none}.f:last-of-type{visibility:visible}}',
  ].join('')
}

function textOf(frame: string[] | undefined): string {
  return frame?.join('\n') ?? ''
}

function lineOf(line: string, row: number): string {
  if (line === '') return ''
  const text = line.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
  const y = MARGIN + (row + 1) * CELL.height - 4
  return `<text x="${MARGIN}" y="${y}" xml:space="preserve">${text}</text>\n`
}

async function recorded(): Promise<string> {
  const demo = `stty cols ${COLUMNS} rows ${ROWS}; exec ${process.execPath} test/world/demo.ts`
  const terminal = spawn('script', ['--quiet', '--flush', '--command', demo, '/dev/null'], {
    cwd: ROOT,
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const chunks: Buffer[] = []
  for await (const chunk of terminal.stdout) {
    chunks.push(chunk as Buffer)
    if (String(chunk).includes(END)) terminal.stdin.end('q')
  }
  return Buffer.concat(chunks).toString()
}

if (import.meta.main) {
  const frames = framesIn(await recorded())
  mkdirSync(dirname(PICTURE), { recursive: true })
  writeFileSync(PICTURE, pictureOf(chosen(frames, FRAMES)))
  console.log(`${frames.length} frames were drawn`)
}
