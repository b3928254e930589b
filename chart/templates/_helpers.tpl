{{/* Names, labels, and parameters of the CompositeControllers. */}}

{{- define "vec-operator.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "vec-operator.fullname" -}}
{{- $name := include "vec-operator.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "vec-operator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{- define "vec-operator.labels" -}}
{{ include "vec-operator.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "vec-operator.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "vec-operator.fullname" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- with .Values.image.digest }}{{ $image = printf "%s@%s" $image . }}{{ end -}}
{{- $image -}}
{{- end -}}

{{/*
Security contexts of a pod and of a container, given those of the values. Values of an earlier release, which
--reuse-values keeps, have none: then what the Pod Security Standard "restricted" requires.
*/}}
{{- define "vec-operator.podSecurity" -}}
{{- if . -}}
{{ toYaml . }}
{{- else -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
seccompProfile:
  type: RuntimeDefault
{{- end -}}
{{- end -}}

{{- define "vec-operator.containerSecurity" -}}
{{- if . -}}
{{ toYaml . }}
{{- else -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}
{{- end -}}

{{/* Labels of the pods of this chart: those of the first map take precedence. */}}
{{- define "vec-operator.podLabels" -}}
{{- $labels := dict -}}
{{- range . }}{{ $labels = merge $labels (. | default dict) }}{{ end -}}
{{- toYaml $labels -}}
{{- end -}}

{{/* Labels of the pod of "helm test", by which the NetworkPolicy admits it. */}}
{{- define "vec-operator.installCheckLabels" -}}
app.kubernetes.io/name: vec-operator-install-check
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Where the pods that helm itself starts run: as those of the Jobs that run helm. */}}
{{- define "vec-operator.hookPod" -}}
{{- $pod := dig "pods" "helm" dict .Values.jobs -}}
restartPolicy: Never
{{- with $pod.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- range $field := list "nodeSelector" "tolerations" "affinity" }}
{{- with get $pod $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- include "vec-operator.podSecurity" $pod.podSecurityContext | nindent 2 }}
{{- end -}}

{{/*
"own": the service signs its own certificate; "file": one of a Secret; "": plain HTTP. Values of an earlier
release, kept by --reuse-values, do not say "enabled": then it is "own".
*/}}
{{- define "vec-operator.hookTls" -}}
{{- if .Values.hooks.tls.secretName -}}
file
{{- else if ne (toString .Values.hooks.tls.enabled) "false" -}}
own
{{- end -}}
{{- end -}}

{{/* Values of an earlier release, kept by --reuse-values, do not have it. */}}
{{- define "vec-operator.clusterDomain" -}}
{{- .Values.clusterDomain | default "cluster.local" -}}
{{- end -}}

{{- define "vec-operator.hookHost" -}}
{{- printf "%s.%s.svc.%s" (include "vec-operator.fullname" .) .Release.Namespace (include "vec-operator.clusterDomain" .) -}}
{{- end -}}

{{/* Several replicas: the leader directs this Service to itself. */}}
{{- define "vec-operator.leaderService" -}}
{{- if gt (int .Values.replicaCount) 1 -}}
{{- printf "%s-leader" (include "vec-operator.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.leaderHost" -}}
{{- with include "vec-operator.leaderService" . -}}
{{- printf "%s.%s.svc.%s" . $.Release.Namespace (include "vec-operator.clusterDomain" $) -}}
{{- end -}}
{{- end -}}

{{- define "vec-operator.hookUrl" -}}
{{- $scheme := ternary "https" "http" (ne (include "vec-operator.hookTls" .) "") -}}
{{- $host := include "vec-operator.leaderHost" . | default (include "vec-operator.hookHost" .) -}}
{{- .Values.hooks.url | default (printf "%s://%s:8080" $scheme $host) -}}
{{- end -}}

{{/* Created empty by this chart and filled by the service: nothing random is rendered. */}}
{{- define "vec-operator.hookSecret" -}}
{{- printf "%s-hooks" (include "vec-operator.fullname" .) -}}
{{- end -}}

{{/* Part of the hook URLs: a change of the namespaces makes Metacontroller sync every resource again. */}}
{{- define "vec-operator.namespacesHash" -}}
{{- sortAlpha .Values.operator.namespaces | join "," | sha256sum | trunc 12 -}}
{{- end -}}

{{/*
Stands in the hook URLs and on the pod: Metacontroller reads a token once and the kubelet takes a minute, so
both begin again when the value "rotation" or the name of the Secret changes. It says nothing of a token.
*/}}
{{- define "vec-operator.tokenFingerprint" -}}
{{- printf "%s %s" .Values.hooks.token.existingSecret (toString .Values.hooks.token.rotation) | sha256sum | trunc 12 -}}
{{- end -}}

{{/* Secrets of the operator's namespace that Jobs get copies of, as a JSON array of names. */}}
{{- define "vec-operator.copiedSecrets" -}}
{{- $names := list }}
{{- range .Values.imagePullSecrets }}
{{- $names = append $names .name }}
{{- end }}
{{- range $field := list "pullSecret" "credentialsSecret" }}
{{- with dig $field "" $.Values.engineChart }}
{{- $names = append $names . }}
{{- end }}
{{- end }}
{{- $names | uniq | toJson }}
{{- end }}
