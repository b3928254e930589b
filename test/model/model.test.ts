import t from 'tap'
import type { AnyObject } from '../../crds/kubernetes.ts'
import { LABELS } from '../../crds/contract/names.ts'
import type { KindHooks } from '../../hooks/protocol.ts'
import { restoreHooks } from '../../hooks/restore/index.ts'
import type { RestorePorts } from '../../hooks/restore/observe.ts'
import { matchWhole } from '../match-whole.ts'
import { explore, Wrong, type Found, type Model } from './explore.ts'
import { lifeOf, type Life } from './life.ts'
import { LIVES } from './lives.ts'
import { recorded } from './calls.ts'
import { collections } from './collection.ts'
import { migrations, restores } from './data-jobs.ts'
import { portsOver } from './ports.ts'
import { create, edit, keyOf, type Small, type SmallWorld } from './small-world.ts'
import { walk } from './unmerged.ts'

/** `npm run test:model` explores all states. */
const FIRST_STATES = 50
/** `npm run test:model -- --walks 30` walks further, through every world. */
const WALKS = { seed: 1, walks: 6, length: 60 }

for (const [kind, lives] of Object.entries(LIVES)) {
  t.test(`${kind}: nothing flaps, no child is lost, and no ended Job comes back`, async (t) => {
    for (const [name, life] of Object.entries(lives)) {
      const { states, steps, wrong, deadEnds } = await explore(lifeOf(life), FIRST_STATES)
      t.comment(`${name}: ${states} states, ${steps} steps`)
      t.strictSame([wrong, deadEnds], [[], []], name)
    }
  })
}

for (const [kind, lives] of Object.entries(LIVES)) {
  t.test(
    `${kind}: worlds of the same text have the same future, whatever led to them`,
    async (t) => {
      const [life] = Object.values(lives)
      if (life === undefined) throw new Error(`no life of ${kind}`)
      const { compared, differences } = await walk(lifeOf(life), WALKS)
      t.ok(compared > 100, String(compared))
      t.strictSame(differences, [])
    },
  )
}

type Request = Parameters<KindHooks['sync']>[0]
type Answer = Awaited<ReturnType<KindHooks['sync']>>

/** Explores the life of a VecMigration whose hooks return a changed answer. */
function broken(change: (desired: Answer, request: Request) => Answer): Promise<Found> {
  const { hooks, ...life } = migrations()['one life'] as Life
  return explore(
    lifeOf({
      ...life,
      hooks(world) {
        const { sync, ...rest } = hooks(world)
        return {
          ...rest,
          sync: async (request, context) => change(await sync(request, context), request),
        }
      },
    }),
  )
}

function phaseOf({ parent }: Request): string | undefined {
  return (parent as { status?: { phase?: string } }).status?.phase
}

const isJob = ({ kind }: { kind: string }) => kind === 'Job'

t.test('hooks that never create their Job lead to dead ends', async (t) => {
  const { deadEnds, isWhole } = await broken((desired) => ({
    ...desired,
    children: desired.children.filter((child) => !isJob(child)),
  }))
  t.ok(isWhole)
  t.ok(deadEnds.length > 0)
})

t.test('hooks that prune an unfinished Job lose it', async (t) => {
  const { wrong } = await broken((desired, { children }) => {
    const [job] = Object.values(children['Job.batch/v1'] ?? {})
    if (job === undefined) return desired
    const { kind, metadata } = job
    const others = desired.children.filter((child) => !isJob(child))
    return { ...desired, children: others, pruned: [{ kind, name: metadata.name, reason: 'none' }] }
  })
  t.ok(wrong.some((words) => /-migration-[0-9a-f]{5}-1 is lost$/.test(words)))
})

t.test('hooks that omit a child are stopped by the guard', async (t) => {
  const { wrong } = await broken((desired, { children }) =>
    Object.keys(children['Job.batch/v1'] ?? {}).length === 0
      ? desired
      : { ...desired, children: [] },
  )
  t.ok(wrong.some((words) => /is neither returned nor pruned$/.test(words)))
})

t.test('hooks that return another status in every pass flap', async (t) => {
  const { wrong } = await broken((desired, { parent }) => {
    const { error } = (parent as { status?: { error?: string } }).status ?? {}
    return {
      ...desired,
      status: { ...(desired.status as object), error: error === 'a' ? 'b' : 'a' },
    }
  })
  t.ok(
    wrong.some((words) =>
      /flaps: passes keep changing objects although nothing else happens$/.test(words),
    ),
  )
})

t.test('hooks that continue after the end revive a finished resource', async (t) => {
  const back = await broken((desired, request) =>
    phaseOf(request) === 'Completed' ? { ...desired, status: { phase: 'Pending' } } : desired,
  )
  t.ok(back.wrong.some((words) => /was Completed, is Pending$/.test(words)))
  const again = await broken((desired, request) => {
    const isThere = desired.children.some(({ metadata }) => metadata.name === 'again')
    if (phaseOf(request) !== 'Completed' || isThere) return desired
    const labels = { [LABELS.parent]: (request.parent as AnyObject).metadata.uid ?? '' }
    const job = { apiVersion: 'batch/v1', kind: 'Job', metadata: { name: 'again', labels } }
    return { ...desired, children: [...desired.children, job] }
  })
  t.ok(again.wrong.some((words) => /again is created after the end$/.test(words)))
})

t.test(
  'of two services that write a Lease at the same time, only one starts its Job',
  async (t) => {
    const { hooks, ...life } = restores()['two services, and another restore'] as Life
    const { wrong } = await explore(lifeOf({ ...life, hooks }), TWO_SERVICES)
    t.strictSame(wrong, [])
    const careless = (world: SmallWorld) =>
      restoreHooks({ ...portsOver(world), ...recorded(world, { writeLease: overwrite(world) }) })
    const broken = await explore(lifeOf({ ...life, hooks: careless }), TWO_SERVICES)
    t.ok(
      broken.wrong.some((words) =>
        /the service continues.* is created while other-run runs$/.test(words),
      ),
      broken.wrong.join('\n'),
    )
  },
)

/** The first states of a world with two services. */
const TWO_SERVICES = 1200

/** Writes a Lease although another service has written it since it was read. */
function overwrite(world: SmallWorld): RestorePorts['writeLease'] {
  return async (lease) => {
    const object = lease as unknown as Small
    if (!create(world, object))
      edit(world, keyOf(object), (found) => ({ ...found, spec: object.spec }))
    return true
  }
}

t.test('states with a stopped service are equal whatever led to them', async (t) => {
  for (const lives of [restores(), collections(), migrations()]) {
    const { compared, differences } = await walk(lifeOf(lives['two services'] as Life), WALKS)
    t.ok(compared > 50, String(compared))
    t.strictSame(differences, [])
  }
})

interface Counter {
  value: number
}

/** Counts up to three. From two on, only the strike leads to the goal. */
const counter: Model<Counter> = {
  start: { value: 0 },
  copy: (world) => ({ ...world }),
  text: ({ value }) => String(value),
  steps: ({ value }) => [
    { name: 'up', take: async (to) => void (to.value = Math.min(value + 1, 3)) },
    {
      name: 'break',
      take: async () => {
        if (value === 3) throw new Wrong('broke at three')
      },
    },
    { name: 'back', isStrike: true, take: async (to) => void (to.value = 0) },
  ],
  wrong: () => [],
  wrongIn: async ({ value }) => (value === 2 ? ['is two'] : []),
  isGoal: ({ value }) => value === 1,
}

t.test('a broken promise and a dead end are reported with the path that leads there', async (t) => {
  t.strictSame(await explore(counter), {
    states: 4,
    steps: 12,
    isWhole: true,
    wrong: ['start > up > up: is two', 'start > up > up > up > break: broke at three'],
    deadEnds: ['start > up > up', 'start > up > up > up'],
  })
})

t.test('an exploration that stops early reports that, and no dead ends', async (t) => {
  const { states, isWhole, deadEnds } = await explore(counter, 3)
  t.strictSame({ states, isWhole, deadEnds }, { states: 4, isWhole: false, deadEnds: [] })
  t.equal((await explore(counter, 4)).isWhole, true, 'the last state is explored')
})

t.test('different states of the same text are reported with the path to the second', async (t) => {
  const odd: Model<Counter> = {
    ...counter,
    // Two and three differ in what "break" does.
    text: ({ value }) => String(Math.min(value, 2)),
    outcome: ({ value }) => String(value),
  }
  const { compared, differences } = await walk(odd, { seed: 1, walks: 5, length: 10 })
  t.ok(compared > 0)
  t.match(differences[0], /^start > .*: "(up|break)" leads to different states: /)
  t.strictSame((await walk(counter, { seed: 1, walks: 5, length: 10 })).differences, [])
})

t.test('a decision by an age that is missing in the text is found', async (t) => {
  const clock: Model<{ now: number }> = {
    start: { now: 0 },
    copy: (world) => ({ ...world }),
    text: () => 'always',
    outcome: ({ now }) => (now > 2 ? 'silent' : 'running'),
    steps: () => [{ name: 'time passes', take: async (to) => void (to.now += 1) }],
    wrong: () => [],
    isGoal: () => true,
  }
  const { differences } = await walk(clock, { seed: 1, walks: 1, length: 5 })
  // The third step finds it, and each one after it.
  const found = /"time passes" leads to different states: .*running.*silent/
  matchWhole(t, differences, [found, found, found])
})
