/** Which texts are certificates. */
import t from 'tap'
import { isCertificateBundle } from '../../crds/certificates.ts'
import { ONE, TWO } from '../metacontroller/certificates.ts'

t.test('one certificate, or several with comments between them', async (t) => {
  t.ok(isCertificateBundle(ONE.cert))
  t.ok(
    isCertificateBundle(ONE.cert.trim().replaceAll('\n', '\r\n')),
    'with the line ends of Windows',
  )
  t.ok(isCertificateBundle(`# Root 1\n${ONE.cert}\n# Root 2\n${TWO.cert}`))
})

t.test('no other text, and none with a certificate that is broken', async (t) => {
  const broken = ONE.cert.replace('MII', 'AAA')
  const cut = TWO.cert.slice(0, 200)
  const texts = ['', 'authority', ONE.key, broken, cut, ONE.cert + broken, broken + ONE.cert, ONE.cert + cut] // prettier-ignore
  for (const text of texts) t.notOk(isCertificateBundle(text), text.slice(0, 40))
})
