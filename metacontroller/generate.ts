/**
 * Writes chart/templates/compositecontrollers.yaml from the table in controllers.ts, with what only
 * an installation knows left to the chart. `--check` writes nothing and fails on a difference.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { controllers, PLURALS, type CompositeController } from './controllers.ts'

export const TEMPLATE = new URL('../chart/templates/compositecontrollers.yaml', import.meta.url)

const HEADER = `{{- /* Generated from metacontroller/controllers.ts by "npm run generate"; do not edit. */ -}}
`

/** What the chart puts in each place; the helpers are in chart/templates/_helpers.tpl. */
const PLACES = {
  URL: '{{ include "vec-operator.hookUrl" . }}',
  VERSION: '{{ .Chart.AppVersion }}',
  FINGERPRINT: '{{ include "vec-operator.tokenFingerprint" . }}',
  NAMESPACES: '{{ include "vec-operator.namespacesHash" . }}',
  SECRET: '{{ .Values.hooks.token.existingSecret }}',
  SECRET_NAMESPACE: '{{ .Release.Namespace }}',
  SECRET_KEY: 'token',
  CA: '{{ .Values.hooks.tls.caBundle | toJson }}',
} as const

/** The template as it must be. */
export function template(): string {
  const objects = controllers({
    url: place('URL'),
    version: place('VERSION'),
    tokenFingerprint: place('FINGERPRINT'),
    namespacesHash: place('NAMESPACES'),
    token: {
      name: place('SECRET'),
      namespace: place('SECRET_NAMESPACE'),
      key: place('SECRET_KEY'),
    },
    caBundle: place('CA'),
    kinds: PLURALS,
  })
  return HEADER + objects.map(document).join('')
}

function document(controller: CompositeController): string {
  const text = stringify(controller, { lineWidth: 0, aliasDuplicateObjects: false })
    // Only where they are a person's own: else the service writes them when it runs.
    .replace(/^( +)authorization:\n(?: +.*\n){5}/gm, onlyIf('.Values.hooks.token.existingSecret'))
    .replace(/^( +)caBundle:\n.*\n/gm, onlyIf('.Values.hooks.tls.caBundle'))
    .replace(/__([A-Z_]+)__/g, (_, name: keyof typeof PLACES) => PLACES[name])
  const { resource } = controller.spec.parentResource
  return `{{- if has ${JSON.stringify(resource)} .Values.kinds }}\n---\n${text}{{- end }}\n`
}

function onlyIf(value: string) {
  return (block: string, indent: string) =>
    `${indent}{{- if ${value} }}\n${block}${indent}{{- end }}\n`
}

function place(name: keyof typeof PLACES): string {
  return `__${name}__`
}

if (import.meta.main) {
  const wanted = template()
  if (!process.argv.includes('--check')) writeFileSync(TEMPLATE, wanted)
  else if (readFileSync(TEMPLATE, 'utf8') !== wanted) {
    process.stderr.write('chart/templates/compositecontrollers.yaml differs: npm run generate\n')
    process.exitCode = 1
  }
}
