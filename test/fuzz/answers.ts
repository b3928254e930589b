/** What engines answer: as they should, damaged, or nothing like it. */
import { Type, type TSchema } from '@sinclair/typebox'
import fc from 'fast-check'
import { Aliases, CollectionInfo } from '../../crds/engine/collections.ts'
import {
  ClusterStatus,
  CollectionClusterInfo,
  CollectionList,
  VersionInfo,
} from '../../jobs/clients/engine/responses.ts'
import { SAMPLES } from '../crds/corpus/samples.ts'
import type { ApiObject } from '../world/client.ts'
import { begun, grown, old, Youth } from './life.ts'
import { damaged, damages, type Damage } from './mangle.ts'
import type { AskEngine } from '../doubles/engine/without-server.ts'
import { resourceOf } from './specs.ts'
import { Stage } from './stage.ts'
import type { Check, Subject } from './subject.ts'
import { awkwardText, rarely, valueOf } from './value.ts'
import { FuzzedWorld } from './world.ts'

/** Endpoints by what they are called here. */
const SCHEMAS: Record<string, TSchema> = {
  version: VersionInfo,
  cluster: ClusterStatus,
  aliases: Aliases,
  collections: CollectionList,
  collection: CollectionInfo,
  placement: CollectionClusterInfo,
  written: Type.Boolean(),
  indexed: Type.Object({}),
}

interface Said {
  status: number
  value: unknown
  damages: Damage[]
  /** Instead of the value. */
  text?: string | undefined
}

interface AnswerCase {
  kind: string
  /** By endpoint. A call of an endpoint without an entry gets no answer. */
  answers: Record<string, Said>
}

const KINDS = ['VecCollection', 'VecCluster']
const STATUSES = [200, 200, 200, 200, 200, 200, 202, 400, 401, 403, 404, 409, 422, 429, 500, 503]

export const answers: Subject<AnswerCase> = {
  name: 'answers',
  title: 'whatever an engine answers, every hook has an answer that loses nothing',
  cases: fc.record({
    kind: fc.constantFrom(...KINDS),
    answers: fc.record(
      Object.fromEntries(Object.entries(SCHEMAS).map(([name, schema]) => [name, saidOf(schema)])),
      { requiredKeys: [], noNullPrototype: true },
    ),
  }) as fc.Arbitrary<AnswerCase>,
  open,
  inWorld,
}

function saidOf(schema: TSchema): fc.Arbitrary<Said> {
  return fc.record(
    {
      status: fc.constantFrom(...STATUSES),
      value: valueOf(schema),
      damages: fc.oneof(fc.constant<Damage[]>([]), damages),
      text: rarely(awkwardText()),
    },
    { requiredKeys: ['status', 'value', 'damages'], noNullPrototype: true },
  )
}

async function open(): Promise<Check<AnswerCase>> {
  const stage = new Stage()
  const youth = new Youth(stage)
  return {
    async holds({ kind, answers: all }) {
      const { spec } = SAMPLES.find((sample) => sample.kind === kind) as ApiObject
      const resource = resourceOf(kind)
      const engine: AskEngine = async ({ method, path }) => {
        const name = endpointOf(method, path)
        const said = all[name]
        return name === 'readyz' ? { status: 200, text: 'ready' } : said && answerOf(name, said)
      }
      // A cluster begins where no engine is yet: always alike.
      const isAlike = kind === 'VecCluster'
      stage.engine = isAlike ? noAnswer : engine
      const parent = isAlike ? await youth.of(resource, spec) : await begun(stage, resource, spec)
      stage.engine = engine
      const phase = stage.phaseOf(parent)
      await grown(stage, resource, parent)
      await old(stage, resource, parent)
      return `${kind} ${phase}`
    },
    askedAgain: () => stage.askedAgain,
    close: () => stage.close(),
  }
}

async function noAnswer(): Promise<undefined> {
  return undefined
}

/** The same answers on the wire, from every node of the cluster that the samples refer to. */
async function inWorld(): Promise<Check<AnswerCase>> {
  const fuzzed = await FuzzedWorld.open()
  const { engines } = fuzzed.world.controllers
  return {
    async holds({ kind, answers: all }) {
      const { spec } = SAMPLES.find((sample) => sample.kind === kind) as ApiObject
      engines.misbehave(({ method, path }) => {
        const name = endpointOf(method, `/${path.join('/')}`)
        const said = all[name]
        if (said === undefined) return undefined
        const { status, text: body } = answerOf(name, said)
        return { status, body, headers: JSON_TYPE }
      })
      try {
        const resource = resourceOf(kind)
        return await fuzzed.holds({ resource, name: 'a', spec: async () => spec })
      } finally {
        engines.misbehave()
      }
    },
    askedAgain: () => fuzzed.askedAgain,
    close: () => fuzzed.close(),
  }
}

const JSON_TYPE = { 'content-type': 'application/json' }

function endpointOf(method: string, path: string): string {
  const [first, name, rest] = (path.split('?')[0] ?? '').slice(1).split('/')
  if (first === '') return 'version'
  if (first !== 'collections') return first ?? ''
  if (rest === 'index') return 'indexed'
  if (method !== 'GET') return 'written'
  if (name === undefined) return 'collections'
  return rest === undefined ? 'collection' : 'placement'
}

function answerOf(name: string, { status, value, damages: all, text }: Said) {
  if (text !== undefined) return { status, text }
  // Only the version comes without an envelope.
  const whole = name === 'version' ? value : { result: value, status: 'ok', time: 0.001 }
  return { status, text: JSON.stringify(damaged(whole, all)) }
}
