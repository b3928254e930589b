/**
 * The chart's own Roles and bindings for the embedded API, read from the templates, so that a right that is missing
 * there is missing here. test/chart/roles.test.ts compares them with what helm renders.
 */
import { readFileSync } from 'node:fs'
import { parseAllDocuments } from 'yaml'
import { PLURALS } from '../../metacontroller/controllers.ts'
import type { ApiObject } from './client.ts'

const FILES = ['rbac-service', 'rbac-helm', 'rbac-shards', 'rbac-metacontroller']

/** Accounts of the two processes. */
export const SERVICE_ACCOUNT = { namespace: 'vec-operator', name: 'vec-operator' }
export const METACONTROLLER_ACCOUNT = { namespace: 'metacontroller', name: 'metacontroller' }

/** As for all kinds in all namespaces, without image pull Secrets. `read` returns the text of a template. */
export function chartRoles(read = templateText): ApiObject[] {
  return FILES.flatMap((file) =>
    parseAllDocuments(rendered(read(file))).map((document) => document.toJS() as ApiObject | null),
  ).filter((object): object is ApiObject => object !== null)
}

function templateText(file: string): string {
  return readFileSync(new URL(`../../chart/templates/${file}.yaml`, import.meta.url), 'utf8')
}

/** The few forms of these templates; another one is not YAML and is refused. */
function rendered(template: string): string {
  const account = `{kind: ServiceAccount, name: ${SERVICE_ACCOUNT.name}, namespace: ${SERVICE_ACCOUNT.namespace}}`
  return (
    branches(template.replace(/\{\{- \/\*[^]*?\*\/ -?\}\}/g, ''))
      // A list with an item or two for each kind.
      .replace(/^ *\{\{- range \$kinds \}\}\n([^]*?)^ *\{\{- end \}\}\n/gm, (_, items: string) =>
        PLURALS.map((plural) => items.replaceAll('{{ . }}', plural)).join(''),
      )
      .replace(/^.*include "vec-operator\.labels".*\n/gm, '')
      .replace(/^( *)labels:\n(?!\1 )/gm, '')
      .replace(/^ *- \{\{- toYaml \$account[^}]*\}\}/gm, `  - ${account}`)
      .replace(/\{\{ if has "\w+" \$kinds \}\}([^{]*)\{\{ end \}\}/g, '$1')
      .replace(/^ *\{\{-?[^}]*\}\}\n/gm, '')
      .replace(/\{\{ (\$name|include "vec-operator\.fullname" \.) \}\}/g, SERVICE_ACCOUNT.name)
      .replace(/\{\{ include "vec-operator\.hookSecret" \. \}\}/g, 'hook-token')
      .replace(/\{\{ \.Release\.Namespace \}\}/g, SERVICE_ACCOUNT.namespace)
      .replace(
        /\{\{ \.Values\.metacontroller\.(rbac\.serviceAccount|namespace) \}\}/g,
        METACONTROLLER_ACCOUNT.name,
      )
  )
}

/** Leaves out what only an installation for a list of namespaces or with image pull Secrets has. */
function branches(template: string): string {
  const open: { isTaken: boolean }[] = []
  const lines: string[] = []
  for (const line of template.split('\n')) {
    const directive = /^ *\{\{- (if|with|range|else|end)\b([^}]*)\}\}$/.exec(line)
    const [, word, condition = ''] = directive ?? []
    const isSpecial = /operator\.namespaces|imagePullSecrets/.test(condition)
    const last = open.at(-1)
    if (word === 'if' || word === 'with' || word === 'range') {
      open.push({ isTaken: !isSpecial })
    } else if (word === 'else' && last !== undefined) last.isTaken = true
    else if (word === 'end') open.pop()
    if (open.every(({ isTaken }) => isTaken)) lines.push(line)
  }
  return lines.join('\n')
}
