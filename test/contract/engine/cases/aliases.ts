/** Aliases: facts section 5, row 30 of section 16, gotcha 11. */
import type { Case } from '../case.ts'
import type { Stage } from '../stage.ts'
import { VECTORS, created } from './making.ts'

function update(stage: Stage, ...actions: object[]) {
  return stage.call('POST', '/collections/aliases?timeout=15', { body: { actions } })
}

const make = (alias_name: string, collection_name: string) => ({
  create_alias: { collection_name, alias_name },
})
const drop = (alias_name: string) => ({ delete_alias: { alias_name } })

export const ALIASES: Case[] = [
  {
    title: 'an alias of another collection is moved without an error',
    async play(stage) {
      await created(stage, 'one')
      await created(stage, 'two')
      await update(stage, make('al', 'one'))
      await update(stage, make('al', 'two'), make('b %ü', 'two'))
      await update(stage, make('al', 'two'))
      await stage.until('/aliases', (body) => JSON.stringify(body).includes('"two"'))
      await stage.call('GET', '/collections/two/aliases')
      await stage.call('GET', '/collections/one/aliases')
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'actions before a failing one remain in effect',
    async play(stage) {
      await created(stage, 'one')
      await update(stage, make('al', 'one'), make('other', 'none'), make('third', 'one'))
      await stage.until('/aliases', (body) => JSON.stringify(body).includes('"al"'))
    },
  },
  {
    title: 'an unknown alias may be deleted, not renamed; a collection name cannot be an alias',
    async play(stage) {
      await created(stage, 'one')
      await created(stage, 'two')
      await update(stage, make('al', 'one'))
      await update(stage, drop('none'))
      await update(stage, { rename_alias: { old_alias_name: 'none', new_alias_name: 'x' } })
      await update(stage, { rename_alias: { old_alias_name: 'al', new_alias_name: 'new' } })
      await update(stage, make('two', 'one'))
      await update(stage, make('x', 'new'))
      await update(stage)
      await update(stage, { foo: 1 })
      await stage.until('/aliases', (body) => JSON.stringify(body).includes('"new"'))
    },
  },
  {
    title: 'an alias resolves in every path except those of PUT and DELETE',
    async play(stage) {
      await created(stage, 'one')
      await update(stage, make('al', 'one'))
      await stage.until('/collections/al/exists', (body) => JSON.stringify(body).includes('true'))
      await stage.call('GET', '/collections/al')
      await stage.call('PATCH', '/collections/al', { body: { params: { read_fan_out_factor: 2 } } })
      await stage.until('/collections/one', (body) => JSON.stringify(body).includes('read_fan_out'))
      await stage.call('PUT', '/collections/al/index?wait=true', {
        body: { field_name: 'f', field_schema: 'keyword' },
      })
      await stage.until('/collections/one', (body) => JSON.stringify(body).includes('data_type'))
      await stage.call('GET', '/collections/al/aliases')
      await stage.call('PUT', '/collections/al', { body: VECTORS })
      await stage.call('DELETE', '/collections/al')
      await stage.call('GET', '/collections')
    },
  },
  {
    title: 'aliases are deleted with their collection',
    async play(stage) {
      await created(stage, 'one')
      await update(stage, make('al', 'one'), make('b', 'one'), drop('b'))
      await stage.call('DELETE', '/collections/one')
      await stage.until('/aliases', (body) => JSON.stringify(body).includes('[]'))
    },
  },
]
