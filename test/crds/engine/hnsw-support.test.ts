/** Which fields of a per-vector HNSW object an engine knows: with none that it knows the call would hang. */
import t from 'tap'
import { supportsAny } from '../../../crds/engine/collections.ts'

for (const [name, since] of [
  ['m', 0],
  ['ef_construct', 0],
  ['full_scan_threshold', 0],
  ['full_scan_threshold_kb', 0],
  ['max_indexing_threads', 0],
  ['on_disk', 0],
  ['payload_m', 0],
  ['inline_storage', 16],
  ['memory', 19],
] as const) {
  t.test(`an engine knows ${name} from 1.${since} on`, async (t) => {
    t.ok(supportsAny([name], `1.${since}.0`))
    t.ok(supportsAny(['other', name], '1.19.2'))
    if (since > 0) t.notOk(supportsAny([name], `1.${since - 1}.9`))
  })
}

t.test('a field is known by its whole name', async (t) => {
  t.notOk(supportsAny(['', 'M', 'memo'], '1.19.0'))
})

t.test('the capabilities of an engine newer than the tested ones are unknown', async (t) => {
  t.notOk(supportsAny(['new'], '1.19.0'))
  for (const version of ['1.20.0', '2.1.0', '11.1.0', 'dev']) {
    t.ok(supportsAny(['new'], version), version)
    t.notOk(supportsAny([], version), 'an empty object hangs any of them')
  }
})
