/** The script of the quickstart, with programs that only print how they were called. */
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import t from 'tap'

const SCRIPT = join(import.meta.dirname, '../../docs/quickstart/install.sh')
const PROGRAM = '#!/bin/sh\necho "$(basename "$0") $*"\n'

t.test('an image may have a port and a number as its tag', async (t) => {
  const folder = t.testdir({ helm: PROGRAM, kubectl: PROGRAM })
  for (const name of ['helm', 'kubectl']) chmodSync(join(folder, name), 0o755)
  const { status, stdout, stderr } = spawnSync(
    SCRIPT,
    ['registry.example:5000/vec-operator:42', '--set', 'jobs.maxHelm=2'],
    { encoding: 'utf8', env: { PATH: [folder, process.env['PATH']].join(delimiter) } },
  )
  t.strictSame({ status, stderr }, { status: 0, stderr: '' })
  // With --set, helm makes a number of the tag, and the schema of the values refuses it.
  t.match(
    stdout,
    /--set image\.repository=registry\.example:5000\/vec-operator --set-string image\.tag=42 --set metacontroller\.rbac\.create=true --set jobs\.maxHelm=2\n/,
  )
})
