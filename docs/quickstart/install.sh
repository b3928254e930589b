#!/usr/bin/env bash
# Installs Metacontroller and the operator of this checkout into the cluster of the current kubectl context.
#   docs/quickstart/install.sh              builds the image with Docker and loads it into the kind cluster
#   docs/quickstart/install.sh NAME:TAG     uses an image that the cluster can pull
# Further arguments are passed to helm, for example: --set jobs.maxHelm=2
# METACONTROLLER_CHART names another source of Metacontroller's chart: a mirror (oci://...) or a folder.
set -euo pipefail
cd "$(dirname "$0")/../.."

metacontroller_chart=${METACONTROLLER_CHART:-oci://ghcr.io/metacontroller/metacontroller-helm}
metacontroller_version=4.17.2

fail() {
  printf 'install.sh: %s\n' "$1" >&2
  exit 1
}

# Nothing has been changed when a program is missing.
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null || fail "$program is not installed"
  done
}

# The image, known to the nodes of a kind cluster.
load() {
  local context
  context=$(kubectl config current-context) || fail 'kubectl has no current context'
  [[ $context = kind-* ]] || fail "the current context, $context, is not a kind cluster. Build and push the image,
  then name it: docs/quickstart/install.sh REGISTRY/vec-operator:TAG"
  docker build --tag "$1" .
  kind load docker-image "$1" --name "${context#kind-}"
}

need kubectl helm
image=vec-operator:dev
if [[ ${1:-} = [!-]* ]]; then
  image=$1
  shift
  [[ ${image##*/} = *:* ]] || fail "$image has no tag: NAME:TAG"
else
  need docker kind
  load "$image"
fi

# The operator's chart gives Metacontroller its permissions, so it is Ready only after both.
helm upgrade --install metacontroller "$metacontroller_chart" --version "$metacontroller_version" \
  --namespace metacontroller --create-namespace --values chart/files/metacontroller.yaml
helm upgrade --install vec-operator chart/ --namespace vec-system --create-namespace --wait --timeout 5m \
  --set "image.repository=${image%:*}" --set-string "image.tag=${image##*:}" \
  --set metacontroller.rbac.create=true "$@"
kubectl rollout status statefulset/metacontroller --namespace metacontroller --timeout=5m
