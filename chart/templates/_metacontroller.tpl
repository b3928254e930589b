{{/* Checks the Metacontroller of this cluster, as far as helm can see it. */}}

{{/*
One sentence that describes the problem, or an empty text. Without a cluster (helm template, a client-side dry
run) every lookup is empty, and so is the result. The CRD shows which fields exist, not which release it is: the
API server would drop the bearer token from a CompositeController whose schema does not have it.
*/}}
{{- define "vec-operator.metacontrollerProblem" -}}
{{- $name := "compositecontrollers.metacontroller.k8s.io" -}}
{{- $definition := lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name -}}
{{- if $definition -}}
{{- $missing := list "v1alpha1" -}}
{{- range $definition.spec.versions -}}
{{- if eq .name "v1alpha1" -}}
{{- $missing = splitList " " (include "vec-operator.missingFields" (dig "schema" "openAPIV3Schema" dict .) | trim) -}}
{{- end -}}
{{- end -}}
{{- $outdated := include "vec-operator.outdatedMetacontroller" . -}}
{{- if ne (first $missing) "" -}}
the CustomResourceDefinition {{ $name }} is of a Metacontroller older than {{ include "vec-operator.metacontrollerVersion" . }}: it does not know {{ join ", " $missing }}
{{- else if $outdated -}}
{{ $outdated }}
{{- end -}}
{{- else if lookup "v1" "Namespace" "" "kube-system" -}}
Metacontroller is not installed: there is no CustomResourceDefinition {{ $name }}
{{- end -}}
{{- end -}}

{{/* The oldest release whose resync works with ignoreStatusChanges. */}}
{{- define "vec-operator.metacontrollerVersion" -}}4.17.2{{- end -}}

{{/* Fields that this chart sets and a schema does not have. */}}
{{- define "vec-operator.missingFields" -}}
{{- if not (get . "x-kubernetes-preserve-unknown-fields") -}}
{{- $spec := dig "properties" "spec" "properties" dict . -}}
{{- $webhook := dig "hooks" "properties" "sync" "properties" "webhook" "properties" dict $spec -}}
{{- if not (hasKey (dig "parentResource" "properties" dict $spec) "ignoreStatusChanges") }} parentResource.ignoreStatusChanges{{ end -}}
{{- range list "authorization" "caBundle" "responseUnMarshallMode" -}}
{{- if not (hasKey $webhook .) }} webhook.{{ . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A Metacontroller in its usual namespace whose image tag is too old. */}}
{{- define "vec-operator.outdatedMetacontroller" -}}
{{- $oldest := include "vec-operator.metacontrollerVersion" . -}}
{{- $sets := lookup "apps/v1" "StatefulSet" .Values.metacontroller.namespace "" | default dict -}}
{{- range get $sets "items" -}}
{{- $set := .metadata.name -}}
{{- range .spec.template.spec.containers -}}
{{- $version := regexFind "[0-9]+[.][0-9]+[.][0-9]+$" (regexFind "/metacontroller:v?[0-9]+[.][0-9]+[.][0-9]+" .image) -}}
{{- if and $version (semverCompare (printf "<%s" $oldest) $version) -}}
the StatefulSet {{ $.Values.metacontroller.namespace }}/{{ $set }} runs Metacontroller {{ $version }}, which is older than {{ $oldest }}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* How to fix the problem. */}}
{{- define "vec-operator.metacontrollerAdvice" -}}
{{- $version := include "vec-operator.metacontrollerVersion" . }}
vec-operator is a plugin of Metacontroller {{ $version }} or newer. To install or upgrade that:

  helm upgrade --install metacontroller oci://ghcr.io/metacontroller/metacontroller-helm \
    --version {{ $version }} --namespace {{ .Values.metacontroller.namespace }} --create-namespace \
    --set fullnameOverride=metacontroller --set rbac.create=false \
    --set 'commandArgs={ {{- include "vec-operator.metacontrollerFlags" . | replace " " "," -}} }'

This gives it no permissions: --set metacontroller.rbac.create=true of vec-operator gives it those that it needs.
--set metacontroller.check=false installs vec-operator nevertheless.
{{- end -}}

{{/* The flags of files/metacontroller.yaml, separated by spaces. */}}
{{- define "vec-operator.metacontrollerFlags" -}}
{{- (.Files.Get "files/metacontroller.yaml" | fromYaml).commandArgs | join " " -}}
{{- end -}}
