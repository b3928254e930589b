/** The `kubectl wait --for=condition=...` command on the page of each kind works. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { parseAllDocuments } from 'yaml'
import { REASONS } from '../../crds/reasons/index.ts'
import { RESOURCES } from '../../crds/crd.ts'
import { builtTool } from '../cluster/tools.ts'
import { embeddedApi, installCrds } from '../metacontroller/embedded.ts'
import type { ApiObject } from '../world/client.ts'
import { ROOT, commandsIn, pages } from './pages.ts'

const NO_KUBECTL = 'no kubectl: the cluster suite has not built one here'
const kubectl = builtTool('kubectl') ?? ''

const folderOf = (kind: string) =>
  kind
    .slice('Vec'.length)
    .replaceAll(/(?<=[a-z])[A-Z]/g, '-$&')
    .toLowerCase()

for (const { kind, shortName } of RESOURCES) {
  const name = folderOf(kind)
  const command = waitIn(`docs/kinds/${name}.md`)

  t.test(
    `the page of ${kind} has a kubectl wait command with a condition that the kind reaches`,
    async (t) => {
      const [, condition = ''] = /^--for=condition=(\w+)$/.exec(command[2] ?? '') ?? []
      const reached = REASONS[kind].filter(({ condition: one }) => one?.status === 'True')
      t.ok(
        reached.some((row) => row.condition?.type === condition),
        condition,
      )
      t.match(command[3], `${shortName}/`)
    },
  )

  t.test(
    `the kubectl wait command on the page of ${kind} works`,
    { skip: kubectl === '' && NO_KUBECTL },
    (t) => showWait(t, readFileSync(`${ROOT}docs/samples/${name}.yaml`, 'utf8'), kind, command),
  )
}

/** The first kubectl wait command of a page, as its words. */
function waitIn(path: string): string[] {
  const page = pages().find((one) => one.path === path)
  const commands = page?.blocks.flatMap(({ text }) => commandsIn(text)) ?? []
  return commands.find(([program, verb]) => program === 'kubectl' && verb === 'wait') ?? []
}

/** It waits while the condition is False and returns once it is True. */
async function showWait(t: Test, yaml: string, kind: string, [, ...words]: string[]) {
  const { api, server } = await embeddedApi(t)
  await installCrds(api)
  const sample = parseAllDocuments(yaml).map((document) => document.toJS() as ApiObject)
  const resource = sample.find((object) => object.kind === kind)
  const made = await api.create({
    ...resource,
    metadata: { ...resource?.metadata, namespace: 'ns' },
  })
  const [, type = ''] = /condition=(\w+)/.exec(words.join(' ')) ?? []
  const setCondition = async (status: 'True' | 'False') => {
    const lastTransitionTime = '2026-03-01T12:00:00Z'
    const condition = { type, status, reason: 'Test', message: '', lastTransitionTime }
    await api.patch(
      { apiVersion: made.apiVersion, kind, namespace: 'ns', name: made.metadata.name },
      // As Metacontroller writes it: kubectl waits until the operator has seen the resource.
      { status: { observedGeneration: made.metadata.generation, conditions: [condition] } },
      { subresource: 'status' },
    )
  }
  const where = ['--server', server.openUrl, '--namespace', 'ns']
  const wait = (timeout: string) =>
    promisify(execFile)(kubectl, [
      ...where,
      ...words.map((word) => (word.startsWith('--timeout=') ? `--timeout=${timeout}` : word)),
    ])
  await setCondition('False')
  const { stderr } = (await wait('1s').catch((error: unknown) => error)) as { stderr: string }
  t.match(stderr, 'timed out waiting for the condition')
  await setCondition('True')
  await t.resolves(wait('20s'))
}
