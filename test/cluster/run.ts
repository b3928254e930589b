/**
 * `npm run test:cluster`: everything that only a real cluster can show. The first lines name what is
 * real here; all that was started is ended, also after a failure or Ctrl-C.
 */
import t from 'tap'
import { readAudit } from '../audit/calls.ts'
import { holders, type Roles } from '../audit/holders.ts'
import { compareRules, type Rule } from '../audit/compare.ts'
import { chartDifferences } from '../chart/compare.ts'
import { chartProblems } from '../chart/installed.ts'
import { CORPUS } from '../crds/corpus.ts'
import { runCorpus, type Store } from '../crds/corpus-run.ts'
import { newSeed } from '../fuzz/run.ts'
import { runScenarios } from '../scenarios/run.ts'
import { strikesOf } from '../scenarios/strikes.ts'
import { SUITE } from '../scenarios/suite.ts'
import { describeRealParts, useRealParts } from '../real-parts.ts'
import { referenceOf } from '../world/client.ts'
import { shutDownOnSignal } from '../world/signals.ts'
import { openGround, type Ground } from './ground.ts'
import { NAMESPACE, RELEASE } from './install.ts'
import { showQuickstart } from './quickstart.ts'
import {
  showChartRegistry,
  showChartRepository,
  showFailover,
  showHelmTest,
  showImageSize,
  showUninstall,
  showUpgrade,
} from './release.ts'
import { openClusterWorld, type ClusterWorld } from './world.ts'
import { recordRun } from '../proof/record.ts'

/** Scenarios wait more than they work. */
const AT_ONCE = 10
/** Number of fault seeds here; many more run in the embedded world. */
const STRIKES = 5
/** How long the process may take to end when all is closed. */
const UNASKED_MS = 60_000

const { SCENARIOS, ONLY, STRIKES_FROM } = process.env
const firstStrike = STRIKES_FROM === undefined ? newSeed() : Number(STRIKES_FROM)
/** A part of the scenarios, by a pattern over their titles; with ONLY without the tests around them. */
const chosen = new RegExp(ONLY ?? SCENARIOS ?? '')
const around = { skip: ONLY !== undefined && 'ONLY names the scenarios to run' }

recordRun('cluster')
const log = (line: string) => t.comment(line)
t.setTimeout(0)
log(`seeds of faults from ${firstStrike} on: STRIKES_FROM=${firstStrike} repeats them`)

// What was built on this machine before is used without being asked for.
log(describeRealParts(useRealParts(process.env)))
const ground = await openGround(process.env, log)
let world: ClusterWorld | undefined
// Whatever fails from here on, nothing is left behind.
const close = async () => {
  await (world ?? ground).close()
  setTimeout(endUnasked, UNASKED_MS).unref()
}
// The local cluster handles signals itself: it stops as a whole.
t.teardown(ground.auditLog === undefined ? shutDownOnSignal(close).shutDown : close)
for (const part of ground.parts) log(part)

await t.test('the operator chart renders as declared', around, async (t) => {
  t.strictSame(await chartProblems(ground.helm), [])
})

await t.test("the engine's chart and its stand-in render the same", around, async (t) => {
  const engineChart = process.env['ENGINE_CHART']
  const found = await chartDifferences({ helm: ground.helm, ...(engineChart && { engineChart }) })
  t.strictSame(found, [])
})

// Before the operator is installed: it would reconcile the many objects of the corpus.
await t.test('the real API server admits and refuses what the corpus says', around, async (t) => {
  await ground.defineKinds()
  const outcomes = await runCorpus(storeOf(ground), 'default', CORPUS)
  t.strictSame(
    outcomes.filter(({ passed }) => !passed),
    [],
  )
  t.equal(outcomes.length, CORPUS.length)
})

await t.test('the image has not grown by more than a tenth', around, showImageSize(ground))

await t.test('helm install puts the operator on the cluster', async () => {
  await ground.install()
  world = openClusterWorld(ground)
})
await t.test(
  'the repository of the engine chart answers with credentials only',
  showChartRepository(ground),
)
if (world !== undefined) {
  const scenarios = [...SUITE, ...strikesOf(firstStrike, STRIKES)]
  const selected = scenarios.filter(({ title }) => chosen.test(title))
  const ended = (title: string, seconds: number) =>
    console.log(`# ${seconds.toFixed(1)} s: ${title}`)
  await runScenarios(t, world, selected, { atOnce: AT_ONCE, ended })
  const { auditLog } = ground
  const skip =
    (auditLog === undefined && 'the cluster is not ours: it shows no audit log') ||
    (selected.length < scenarios.length && 'only a part of the scenarios was run')
  await t.test('H15: every call was allowed, and every right was used', { skip }, async (t) => {
    const known = await holders(rolesOn(ground), { release: RELEASE, namespace: NAMESPACE })
    const { problems, notes } = compareRules(await readAudit(auditLog ?? ''), known)
    for (const note of notes) t.comment(note)
    t.strictSame(problems, [])
  })
  await t.test(
    'helm test passes, and fails and names the hooks while the service is stopped',
    around,
    showHelmTest(ground, world),
  )
  const fromRegistry =
    'a cluster is installed from a registry that needs a pull Secret and has a CA of its own'
  await t.test(
    fromRegistry,
    ONLY !== undefined && chosen.test(fromRegistry) ? {} : around,
    showChartRegistry(ground, world),
  )
  await t.test(
    'of two replicas one is the leader, and the other takes over',
    around,
    showFailover(ground, world),
  )
  await t.test(
    'helm uninstall strands no resource, and leaves the CRDs',
    around,
    showUninstall(ground, world),
  )
  await t.test(
    'helm upgrade takes over from the chart of an earlier commit',
    around,
    showUpgrade(ground, world),
  )
  // Last: it installs Metacontroller and the operator as a new user does.
  await t.test(
    'the quickstart ends with a restored backup after fifteen commands',
    around,
    showQuickstart(ground),
  )
}

/** What a failed scenario has left at work would keep this process, and with it a CI run, for ever. */
function endUnasked(): void {
  console.error(`not ended: ${process.getActiveResourcesInfo().join(', ')}`)
  process.exit(1)
}

/** The ClusterRoles that the chart made. */
function rolesOn({ api }: Ground): Roles {
  const apiVersion = 'rbac.authorization.k8s.io/v1'
  return {
    rules: async (name) => {
      const role = await api.get({ apiVersion, kind: 'ClusterRole', namespace: '', name })
      return (role?.['rules'] ?? []) as Rule[]
    },
  }
}

function storeOf({ api }: Ground): Store {
  return {
    create: (object) => api.create(object),
    replace: (object) => api.replace(object),
    delete: async (object) => {
      await api.delete(referenceOf(object))
    },
  }
}
