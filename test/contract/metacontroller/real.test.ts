/**
 * The contract on the real Metacontroller, where METACONTROLLER_BIN names it, and on our loop
 * against the same API server. RECORD=1 keeps what the real one did as the truth for both.
 */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { parseAllDocuments } from 'yaml'
import { realMetacontroller } from '../../cluster/metacontroller.ts'
import { metacontrollerVersion } from '../../real-parts.ts'
import type { ApiClient } from '../../world/client.ts'
import { CASES } from './cases/all.ts'
import { DEFINITIONS } from './kinds.ts'
import { metacontrollerSubject, startRealApi } from './real.ts'
import { play, record, recording } from './run.ts'
import { loopSubject, type Subject } from './subject.ts'

const real = realMetacontroller(process.env)
const recorded = process.env['RECORD'] === '1'
/** A part of the cases, by a pattern over their titles. */
const chosen = new RegExp(process.env['CASES'] ?? '')

if (real === undefined) {
  t.pass('METACONTROLLER_BIN names no Metacontroller: nothing to examine', { skip: true })
} else {
  const version = metacontrollerVersion(real.bin).replace(/^v/, '')
  t.comment(`Metacontroller ${version}`)
  t.setTimeout(1_200_000)
  const ground = await startRealApi((line) => t.comment(line))
  t.teardown(() => ground.close())
  await define(ground.api, [...DEFINITIONS, ...definitionsIn(real.crds)])
  const subjects: [string, Subject][] = [
    ['Metacontroller', metacontrollerSubject(ground, real.bin)],
    ['the loop on a real API server', loopSubject(ground.api)],
  ]
  for (const [name, subject] of subjects) {
    t.test(name, { timeout: 900_000 }, async (t) => {
      for (const [index, played] of CASES.entries()) {
        if (!chosen.test(played.title) || played.expected !== undefined) continue
        t.test(played.title, async (t) => {
          const notes = await play(subject, played, `${name.slice(0, 3).toLowerCase()}-${index}`)
          if (recorded && name === 'Metacontroller') record(played, version, notes)
          t.strictSame(notes, recording(played))
        })
      }
    })
  }
}

function definitionsIn(file: string): object[] {
  return parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as object)
}

async function define(api: ApiClient, definitions: object[]): Promise<void> {
  for (const definition of definitions) await api.create(definition)
  for (const definition of definitions) {
    const { metadata } = definition as { metadata: { name: string } }
    const kind = { apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' }
    for (;;) {
      const found = await api.get({ ...kind, namespace: '', name: metadata.name })
      if (JSON.stringify(found?.status ?? {}).includes('"Established","status":"True"')) break
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
