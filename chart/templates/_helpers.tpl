{{/* Names, labels and what the CompositeControllers need to know. */}}

{{- define "vec-operator.fullname" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.selectorLabels" -}}
app.kubernetes.io/name: vec-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "vec-operator.labels" -}}
{{ include "vec-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "vec-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "vec-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.image" -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}

{{/* What the Pod Security Standard "restricted" asks of a pod, and of a container. */}}
{{- define "vec-operator.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "vec-operator.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "vec-operator.hookUrl" -}}
{{- $scheme := ternary "https" "http" (ne .Values.hooks.tls.secretName "") -}}
{{- $service := printf "%s://%s.%s.svc.cluster.local:8080" $scheme (include "vec-operator.fullname" .) .Release.Namespace -}}
{{- .Values.hooks.url | default $service -}}
{{- end -}}

{{/* Stands in the hook URLs: other namespaces make Metacontroller ask again about every resource. */}}
{{- define "vec-operator.namespacesHash" -}}
{{- sortAlpha .Values.operator.namespaces | join "," | sha256sum | trunc 12 -}}
{{- end -}}

{{- define "vec-operator.tokenSecret" -}}
{{- .Values.hooks.token.existingSecret | default (printf "%s-hook-token" (include "vec-operator.fullname" .)) -}}
{{- end -}}

{{/*
Decides on the tokens once per rendering, because a random one differs each time it is made; the
result stays in .Values.hooks.tokens (current, accepted). Kept while the Secret is there and the
value "rotation" has not changed.
*/}}
{{- define "vec-operator.loadTokens" -}}
{{- if not (hasKey .Values.hooks "tokens") -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace (include "vec-operator.tokenSecret" .) | default dict -}}
{{- $data := get $secret "data" | default dict -}}
{{- $current := get $data "token" | default "" | b64dec -}}
{{- $accepted := get $data "accepted" | default "" | b64dec -}}
{{- if not .Values.hooks.token.existingSecret -}}
{{- $annotations := dig "metadata" "annotations" dict $secret -}}
{{- $rotation := get $annotations "vec-operator.dev/token-rotation" | default "" -}}
{{- if not $current -}}
{{- $current = randAlphaNum 48 -}}
{{- $accepted = $current -}}
{{- else if ne $rotation (toString .Values.hooks.token.rotation) -}}
{{- $previous := $current -}}
{{- $current = randAlphaNum 48 -}}
{{- $accepted = printf "%s\n%s" $current $previous -}}
{{- end -}}
{{- end -}}
{{- $_ := set .Values.hooks "tokens" (dict "current" $current "accepted" $accepted) -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.tokenFingerprint" -}}
{{- include "vec-operator.loadTokens" . -}}
{{- .Values.hooks.tokens.current | sha256sum | trunc 12 -}}
{{- end -}}
