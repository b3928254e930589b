/** The memory cgroup of the bench limits, measures and sees what the kernel ends; where none can be made, it says so. */
import { spawnSync } from 'node:child_process'
import t, { type Test } from 'tap'
import { createMemoryCgroup, type MemoryCgroup } from './memory-cgroup.ts'

const MIB = 1024 * 1024
const LIMIT = 128 * MIB

function fill(cgroup: MemoryCgroup, mebibytes: number): boolean {
  const script = `Buffer.alloc(${mebibytes} * ${MIB}, 1)`
  const [command, args] = cgroup.command(process.execPath, ['-e', script])
  return spawnSync(command, args).status === 0
}

function created(t: Test): MemoryCgroup | undefined {
  try {
    return createMemoryCgroup(LIMIT)
  } catch (error) {
    t.match(error, { message: /^no memory cgroup: / })
    return undefined
  }
}

t.test('a process has its peak in the cgroup, and is ended above the limit', async (t) => {
  const cgroup = created(t)
  if (cgroup === undefined) return
  t.teardown(() => cgroup.remove())
  t.ok(fill(cgroup, 32))
  const peak = cgroup.peak()
  t.ok(peak > 32 * MIB && peak <= LIMIT, `${Math.round(peak / MIB)} MiB`)
  t.equal(cgroup.kills(), 0)
  t.notOk(fill(cgroup, 256))
  t.equal(cgroup.kills(), 1)
})
