import t from 'tap'
import {
  compareVersions,
  engineVersions,
  isOlder,
  isSameOrNextMinor,
  parseVersion,
} from '../../crds/versions.ts'

for (const [older, newer] of [
  ['1.9.0', '1.18.0'],
  ['v1.17.9', '1.18.0'],
  ['1.18.0-rc.2', '1.18.0-rc.10'],
  ['1.18.0-dev', '1.18.0'],
  ['1.17', '1.17.1'],
  ['not a version', '0.0.1'],
] as const) {
  t.test(`${older} is older than ${newer}`, async (t) => {
    t.equal(isOlder(older, newer), true)
    t.equal(isOlder(newer, older), false)
    t.equal(Math.sign(compareVersions(newer, older)), 1)
  })
}

for (const [left, right] of [
  ['1.30.1', 'v1.30.1+k3s1'],
  ['1.18', '1.18.0'],
  ['', '0.0.0'],
] as const) {
  t.test(`"${left}" and ${right} are equal`, async (t) => {
    t.equal(isOlder(left, right), false)
    t.equal(isOlder(right, left), false)
  })
}

t.test('the same minor version and the one after it can read a file of a version', async (t) => {
  const readers = ['1.16.9', '1.17.0', '1.17.5-dev', '1.18.3', '1.19.0', '2.17.0', '2.18.0']
  t.strictSame(
    readers.filter((version) => isSameOrNextMinor('1.17.2', version)),
    ['1.17.0', '1.17.5-dev', '1.18.3'],
  )
})

t.test('the numbers of a version are parsed with any suffix', async (t) => {
  const { major, minor, patch } = parseVersion('v1.31.4-eks-a737599')
  t.strictSame([major, minor, patch], [1, 31, 4])
})

t.test('the versions of images: each once, the oldest first', async (t) => {
  const images = ['q:v1.18.3', 'r:5000/q:v1.9.0@sha256:0a', 'q:v1.18.3-unprivileged', 'q:latest']
  t.strictSame(engineVersions([...images, undefined]), ['1.9.0', '1.18.3'])
})
