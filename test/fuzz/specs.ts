/** Specs of all seven kinds, drawn from their schemas and from the samples, lived through to the end. */
import type { TSchema } from '@sinclair/typebox'
import fc from 'fast-check'
import { RESOURCES, type Resource } from '../../crds/crd.ts'
import { SAMPLES } from '../crds/corpus/samples.ts'
import { EngineCluster } from '../doubles/engine/cluster.ts'
import { engineOf } from '../doubles/engine/without-server.ts'
import { ApiFailure } from '../world/api/failure.ts'
import { born, grown, old, young } from './life.ts'
import { Broken } from './promises.ts'
import { Stage } from './stage.ts'
import type { Check, Subject } from './subject.ts'
import { valueOf } from './value.ts'
import { FuzzedWorld } from './world.ts'

interface SpecCase {
  kind: string
  name: string
  spec: unknown
  surrounded: boolean
}

export const specs: Subject<SpecCase> = {
  name: 'specs',
  title: 'a spec that passes admission never crashes a hook, and one that does not names the field',
  cases: fc.oneof(...RESOURCES.map(caseOf)),
  open,
  async inWorld() {
    const world = await FuzzedWorld.open()
    return {
      holds: ({ kind, name, spec }) =>
        world.holds({ resource: resourceOf(kind), name, spec: async () => spec }),
      askedAgain: () => world.askedAgain,
      close: () => world.close(),
    }
  },
}

function caseOf(resource: Resource): fc.Arbitrary<SpecCase> {
  return fc.record({
    kind: fc.constant(resource.kind),
    name: fc.stringMatching(/^[a-z]([a-z0-9]{0,6}[a-z0-9])?$/),
    spec: specOf(resource),
    surrounded: fc.oneof({ arbitrary: fc.constant(true), weight: 4 }, fc.constant(false)),
  })
}

/** A random spec, or a valid sample with a few fields replaced by random values or removed. */
export function specOf({ kind, spec }: Resource): fc.Arbitrary<unknown> {
  const samples = SAMPLES.filter((sample) => sample.kind === kind).map(
    (sample) => (sample as unknown as { spec: object }).spec,
  )
  const fields = Object.entries<TSchema>(spec.properties).map(([name, schema]) =>
    fc.option(valueOf(schema), { nil: undefined }).map((value) => [name, value] as const),
  )
  const changed = fc
    .tuple(fc.constantFrom(...samples), fc.array(fc.oneof(...fields), { maxLength: 3 }))
    .map(([sample, changes]) => ({ ...sample, ...Object.fromEntries(changes) }))
  return fc.oneof(valueOf(spec), { arbitrary: changed, weight: 3 })
}

async function open(): Promise<Check<SpecCase>> {
  const stage = new Stage()
  return {
    async holds({ kind, ...life }) {
      const resource = resourceOf(kind)
      stage.clear()
      stage.engine = engineOf(new EngineCluster({ staleMs: 0 }))
      try {
        const parent = born(stage, { ...life, resource })
        await young(stage, resource, parent)
        await grown(stage, resource, parent)
        return (await old(stage, resource, parent)) ? 'lived to its end' : 'waits at its end'
      } catch (error) {
        return refusedWith(error)
      }
    },
    askedAgain: () => stage.askedAgain,
    close: () => stage.close(),
  }
}

export function resourceOf(kind: string): Resource {
  const resource = RESOURCES.find((one) => one.kind === kind)
  if (resource === undefined) throw new Error(`there is no kind ${kind}`)
  return resource
}

/** A refusal that names what is wrong is as good as an answer. */
function refusedWith(error: unknown): string {
  if (!(error instanceof ApiFailure)) throw error
  const { causes = [] } = error.details
  if (causes.length === 0 || causes.some(({ field }) => field === '')) {
    throw new Broken(`the refusal names no field: ${error.message}`)
  }
  return 'refused'
}
