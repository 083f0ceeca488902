#!/usr/bin/env bash
# Validates every manifest against the schemas of Kubernetes, offline: `pip install kubernetes-validate`.
# Overlays need kubectl (any version with `kubectl kustomize`); without it they are left out, and said so.
set -euo pipefail
cd "$(dirname "$0")"
# The first version where a failed index is not sent again without a feature gate, and a recent one.
versions=(1.33.0 1.37.0)

validate() {
  local version
  for version in "${versions[@]}"; do
    kubernetes-validate --strict --quiet -k "$version" "$@"
    printf 'valid for Kubernetes %s: %s\n' "$version" "$*"
  done
}

if ! command -v kubernetes-validate >/dev/null; then
  echo "tools/k8s/validate.sh: no kubernetes-validate: pip install kubernetes-validate" >&2
  exit 2
fi
validate base/job.yaml base/results.yaml job-merge.yaml workers.yaml
if ! command -v kubectl >/dev/null; then
  echo "left out for want of kubectl: base, overlays/host-network, overlays/io-uring as rendered" >&2
  exit 0
fi
rendered=$(mktemp -d)
trap 'rm -rf "$rendered"' EXIT
for folder in base overlays/host-network overlays/io-uring; do
  kubectl kustomize "$folder" | sed "s/@START_AT@/1800000000/" > "$rendered/${folder//\//-}.yaml"
done
cd "$rendered"
validate ./*.yaml
