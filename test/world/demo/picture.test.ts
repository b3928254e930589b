/** The picture of the demo is made from what a terminal showed. */
import t from 'tap'
import { chosen, framesIn, pictureOf } from './picture.ts'

const screen = (...lines: string[]) =>
  `\x1b[H${lines.map((line) => `${line}\x1b[K`).join('\r\n')}\x1b[J`

t.test('each screen that was drawn is a frame, without the codes of the terminal', async (t) => {
  const recording = `\x1b[?1049h\x1b[?25l${screen('KIND  NAME', 'a  b')}${screen('end')}\x1b[?1049l bye`
  t.strictSame(framesIn(recording), [['KIND  NAME', 'a  b'], ['end']])
})

t.test(
  'frames are taken evenly, each different from the one before, the last among them',
  async (t) => {
    const frames = ['a', 'a', 'b', 'b', 'c', 'd', 'e'].map((line) => [line])
    t.strictSame(chosen(frames, 3), [['a'], ['c'], ['e']])
  },
)

t.test('the lines are escaped as text of the picture', async (t) => {
  const picture = pictureOf([['<none> & more'], ['end']])
  t.match(picture, '>&lt;none&gt; &amp; more</text>')
  t.equal(picture.match(/<g class="f"/g)?.length, 2)
})
