/**
 * Writes chart/templates/compositecontrollers.yaml from the table in controllers.ts, with Helm
 * expressions for the values that depend on the installation. `--check` writes nothing and fails if
 * the file differs.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { stringify } from 'yaml'
import { controllers, PLURALS, type CompositeController } from './controllers.ts'

export const TEMPLATE = new URL('../chart/templates/compositecontrollers.yaml', import.meta.url)

const HEADER = `{{- /* Generated from metacontroller/controllers.ts by "npm run generate"; do not edit. */ -}}
`

/** Helm expressions for the placeholders; the helpers are in chart/templates/_helpers.tpl. */
const PLACEHOLDERS = {
  URL: '{{ include "vec-operator.hookUrl" . }}',
  VERSION: '{{ .Chart.AppVersion }}',
  FINGERPRINT: '{{ include "vec-operator.tokenFingerprint" . }}',
  NAMESPACES: '{{ include "vec-operator.namespacesHash" . }}',
  SECRET: '{{ .Values.hooks.token.existingSecret | quote }}',
  SECRET_NAMESPACE: '{{ .Release.Namespace | quote }}',
  SECRET_KEY: 'token',
  CA: '{{ .Values.hooks.tls.caBundle | toJson }}',
} as const

/** Returns the expected content of the template. */
export function renderTemplate(): string {
  const objects = controllers({
    url: placeholder('URL'),
    version: placeholder('VERSION'),
    tokenFingerprint: placeholder('FINGERPRINT'),
    namespacesHash: placeholder('NAMESPACES'),
    token: {
      name: placeholder('SECRET'),
      namespace: placeholder('SECRET_NAMESPACE'),
      key: placeholder('SECRET_KEY'),
    },
    caBundle: placeholder('CA'),
    kinds: PLURALS,
  })
  return HEADER + objects.map(document).join('')
}

function document(controller: CompositeController): string {
  const text = stringify(controller, { lineWidth: 0, aliasDuplicateObjects: false })
    .replace(
      /^( +)labels:\n.*\n/gm,
      `$1labels:\n$1  {{- include "vec-operator.labels" . | nindent 4 }}\n`,
    )
    // Rendered only if the user provides them; otherwise the service sets them at run time.
    .replace(
      /^( +)authorization:\n(?: .*\n){5}/gm,
      conditional('.Values.hooks.token.existingSecret'),
    )
    .replace(/^( +)caBundle:\n.*\n/gm, conditional('.Values.hooks.tls.caBundle'))
    .replace(/__([A-Z_]+)__/g, (_, name: keyof typeof PLACEHOLDERS) => PLACEHOLDERS[name])
  const { resource } = controller.spec.parentResource
  return `{{- if has ${JSON.stringify(resource)} .Values.kinds }}\n---\n${text}{{- end }}\n`
}

function conditional(value: string) {
  return (block: string, indent: string) =>
    `${indent}{{- if ${value} }}\n${block}${indent}{{- end }}\n`
}

function placeholder(name: keyof typeof PLACEHOLDERS): string {
  return `__${name}__`
}

if (import.meta.main) {
  const expected = renderTemplate()
  if (!process.argv.includes('--check')) writeFileSync(TEMPLATE, expected)
  else if (readFileSync(TEMPLATE, 'utf8') !== expected) {
    process.stderr.write('chart/templates/compositecontrollers.yaml differs: npm run generate\n')
    process.exitCode = 1
  }
}
