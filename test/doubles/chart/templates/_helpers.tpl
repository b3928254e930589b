{{- define "engine.app" -}}
{{- .Values.nameOverride | default .Chart.Name -}}
{{- end -}}

{{/* Every object has this name, some with a suffix. */}}
{{- define "engine.name" -}}
{{- $app := include "engine.app" . -}}
{{- $release := ternary .Release.Name (printf "%s-%s" .Release.Name $app) (contains $app .Release.Name) -}}
{{- .Values.fullnameOverride | default $release | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "engine.selector" -}}
app: {{ include "engine.app" . }}
app.kubernetes.io/name: {{ include "engine.app" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "engine.labels" -}}
{{ include "engine.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "engine.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ ternary "-unprivileged" "" .Values.image.useUnprivilegedImage }}
{{- end -}}

{{- define "engine.hasKey" -}}
{{- if or .Values.apiKey .Values.readOnlyApiKey -}}yes{{- end -}}
{{- end -}}

{{- define "engine.ports" -}}
{{- range $name, $port := dict "http" 6333 "grpc" 6334 "p2p" 6335 }}
- name: {{ $name }}
  port: {{ $port }}
  targetPort: {{ $port }}
  protocol: TCP
{{- end }}
{{- end -}}

{{/*
One key, from a list of the root, the value that asks for it, and where a generated one is kept.
A reference to a Secret that is not there gives no key at all, as the real chart does.
*/}}
{{- define "engine.key" -}}
{{- $root := index . 0 -}}
{{- $requested := index . 1 -}}
{{- $namespace := $root.Release.Namespace -}}
{{- if kindIs "map" $requested -}}
{{- with $requested.valueFrom -}}
{{- $secret := lookup "v1" "Secret" $namespace .secretKeyRef.name | default dict -}}
{{- dig "data" .secretKeyRef.key "" $secret | b64dec -}}
{{- end -}}
{{- else if kindIs "bool" $requested -}}
{{- if $requested -}}
{{- $kept := lookup "v1" "Secret" $namespace (printf "%s-apikey" (include "engine.name" $root)) | default dict -}}
{{- dig "data" (index . 2) "" $kept | b64dec | default (randAlphaNum 32) -}}
{{- end -}}
{{- else -}}
{{- $requested | default "" -}}
{{- end -}}
{{- end -}}
