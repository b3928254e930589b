/** Hook requests of all kinds, damaged: what Metacontroller would never send, and what an older CRD let in. */
import fc from 'fast-check'
import type { ApiObject } from '../world/client.ts'
import { SAMPLES } from '../crds/corpus/samples.ts'
import { isFinalized } from '../world/loop/in-memory.ts'
import { begun, grown } from './life.ts'
import { damaged, damages, type Damage } from './mangle.ts'
import type { HookCall } from './promises.ts'
import { resourceOf } from './specs.ts'
import { Stage } from './stage.ts'
import type { Check, Subject } from './subject.ts'
import { FuzzedWorld } from './world.ts'

interface RequestCase {
  /** Index of the sample whose request is damaged. */
  sample: number
  hook: HookCall['hook']
  damages: Damage[]
}

export const requests: Subject<RequestCase> = {
  name: 'requests',
  title: 'a damaged request never gets a 200 that loses a child, and its refusal names the field',
  cases: fc.record(
    {
      sample: fc.nat(SAMPLES.length - 1),
      hook: fc.constantFrom('sync', 'finalize', 'customize'),
      damages,
    },
    { noNullPrototype: true },
  ),
  open,
  inWorld,
}

async function open(): Promise<Check<RequestCase>> {
  const stage = new Stage()
  const bodies = await bodiesOf(stage)
  return {
    async holds(one) {
      const call = callOf(one, bodies)
      const { answer } = await stage.ask({ ...call, hostile: true })
      return `${call.hook} ${answer.status}`
    },
    askedAgain: () => stage.askedAgain,
    close: () => stage.close(),
  }
}

/** To the service of a world, which goes on to serve what lives there. */
async function inWorld(): Promise<Check<RequestCase>> {
  const stage = new Stage()
  const bodies = await bodiesOf(stage)
  await stage.close()
  const fuzzed = await FuzzedWorld.open()
  return {
    async holds(one) {
      const call = callOf(one, bodies)
      const { status } = await fuzzed.ask(call)
      return `${call.hook} ${status}`
    },
    askedAgain: () => fuzzed.askedAgain,
    close: () => fuzzed.close(),
  }
}

function callOf(
  { sample, hook: drawn, damages: all }: RequestCase,
  bodies: unknown[],
): Omit<HookCall, 'said'> {
  const resource = resourceOf(SAMPLES[sample]?.kind ?? '')
  const hook = drawn === 'finalize' && !isFinalized(resource.plural) ? 'sync' : drawn
  const whole = bodies[sample] as object
  return { resource, hook, body: damaged({ ...whole, finalizing: hook === 'finalize' }, all) }
}

async function bodiesOf(stage: Stage): Promise<unknown[]> {
  const bodies: unknown[] = []
  for (const sample of SAMPLES) bodies.push(await bodyOf(stage, sample))
  return bodies
}

/** The request about a resource that has its Jobs behind it, as Metacontroller would send it. */
async function bodyOf(stage: Stage, sample: ApiObject): Promise<unknown> {
  const resource = resourceOf(sample.kind)
  const parent = await begun(stage, resource, sample.spec)
  await grown(stage, resource, parent)
  return stage.request(resource, parent)
}
