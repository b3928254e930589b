/** Which real parts a run uses, by its environment and by what was built on the machine before. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { describeRealParts, findRealParts, useRealParts } from '../real-parts.ts'

/** A cache folder in which every part was built; the engine is a script that says its version. */
function cacheFolder(t: Test): string {
  const folder = t.testdir({
    'vec-operator': {
      parts: {
        'engine-1.18.3': { qdrant: '#!/bin/sh\necho qdrant 1.18.3\n' },
        'chart-1.18.3': { 'Chart.yaml': 'name: qdrant\nversion: 1.18.3\nappVersion: v1.18.3\n' },
        metacontroller: '',
      },
      tools: { 'versitygw-0a1b': { versitygw: '' } },
    },
  })
  chmodSync(join(folder, 'vec-operator/parts/engine-1.18.3/qdrant'), 0o755)
  return folder
}

t.test('parts that were built before are found without a variable', (t) => {
  const cache = cacheFolder(t)
  const parts = findRealParts({ XDG_CACHE_HOME: cache })
  const inCache = (path: string) => join(cache, 'vec-operator', path)
  t.strictSame(parts, {
    ENGINE_BIN: inCache('parts/engine-1.18.3/qdrant'),
    ENGINE_CHART: inCache('parts/chart-1.18.3'),
    METACONTROLLER_BIN: inCache('parts/metacontroller'),
    S3_BIN: inCache('tools/versitygw-0a1b/versitygw'),
  })
  t.equal(
    describeRealParts(parts, {}),
    'real parts: engine 1.18.3 (also for 1.18.2), chart 1.18.3 (also for 1.18.2), metacontroller of unknown version, s3 versitygw',
  )
  t.end()
})

t.test('an engine or a chart that passes for other versions names them', (t) => {
  const cache = cacheFolder(t)
  const parts = findRealParts({ XDG_CACHE_HOME: cache })
  const line = (env: Record<string, string>) =>
    describeRealParts(parts, env).replace(/^real parts: |, metacontroller.*/g, '')
  const built = join(cache, 'vec-operator/parts')
  mkdirSync(join(built, 'engine-1.18.2'))
  writeFileSync(join(built, 'engine-1.18.2/qdrant'), '')
  t.equal(line({}), 'engine 1.18.3, chart 1.18.3 (also for 1.18.2)')
  mkdirSync(join(built, 'chart-1.18.2'))
  t.equal(line({}), 'engine 1.18.3, chart 1.18.3')
  t.equal(
    line({ ENGINE_OLDER: '1.17.1', ENGINE_BETWEEN: '1.18.2,1.18.3', ENGINE_NEWER: '1.19.0' }),
    'engine 1.18.3 (also for 1.17.1 and 1.19.0), chart 1.18.3 (also for 1.17.1 and 1.19.0)',
  )
  t.end()
})

t.test('a variable names another part, and an empty one asks for the stand-in', (t) => {
  const cache = cacheFolder(t)
  const env = { XDG_CACHE_HOME: cache, ENGINE_BIN: '', ENGINE_CHART: '', METACONTROLLER_BIN: '/m' }
  const parts = useRealParts(env)
  const store = join(cache, 'vec-operator/tools/versitygw-0a1b/versitygw')
  t.strictSame(parts, { METACONTROLLER_BIN: '/m', S3_BIN: store })
  t.strictSame(env, { XDG_CACHE_HOME: cache, METACONTROLLER_BIN: '/m', S3_BIN: store })
  t.end()
})

t.test('a machine where nothing was built has stand-ins only, and the line says so', (t) => {
  const parts = findRealParts({ XDG_CACHE_HOME: t.testdir({}) })
  t.strictSame(parts, {})
  t.equal(
    describeRealParts(parts),
    'real parts: engine a stand-in, chart a stand-in, metacontroller a stand-in, s3 a stand-in',
  )
  t.end()
})
