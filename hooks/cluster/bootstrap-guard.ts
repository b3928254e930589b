/**
 * Keeps node 0 from founding a second cluster. The chart starts node 0 without an address to join, so node 0 with an
 * empty volume would found a cluster of its own behind the same Service (docs/engine-notes.md). Once the cluster was
 * formed, which consensus.ts records in a ConfigMap, node 0 with a volume that knows no other node joins one of them
 * instead.
 */
import type { VecCluster } from '../../crds/cluster.ts'
import {
  FORMATION_NODES_KEY,
  formationConfigMapName,
  releaseName,
} from '../../crds/contract/names.ts'
import { isMap } from './values.ts'

type Values = Record<string, unknown>

const VOLUME = 'formation'
const DIRECTORY = '/qdrant/formation'

/**
 * Adds the guard to the values of a release. The hash of a plan does not cover it: a cluster that was
 * installed without it gets it with its next helm run, not with a restart of its own.
 */
export function withBootstrapGuard(values: Values, { metadata, spec }: VecCluster): Values {
  if (!spec.cluster.enabled) return values
  const configMap = { name: formationConfigMapName(metadata.name), optional: true }
  return {
    ...values,
    args: [guardScript({ metadata, spec })],
    additionalVolumes: [...listOf(values['additionalVolumes']), { name: VOLUME, configMap }],
    additionalVolumeMounts: [
      ...listOf(values['additionalVolumeMounts']),
      { name: VOLUME, mountPath: DIRECTORY, readOnly: true },
    ],
  }
}

function listOf(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

/**
 * Runs in bash, before the start script of the chart, and uses nothing but bash and `sleep`. A volume that
 * names another node in its consensus state belongs to the cluster. A file without another node does not:
 * a refused join leaves one behind. The record is read again in every round, so that removing the
 * ConfigMap lets node 0 found a new cluster when every volume is lost.
 */
function guardScript({ metadata, spec }: Pick<VecCluster, 'metadata' | 'spec'>): string {
  const release = releaseName(metadata.name)
  const { port, enableTls } = spec.cluster.p2p
  return `formed_nodes() { nodes=$(<${DIRECTORY}/${FORMATION_NODES_KEY}); [[ $nodes =~ ^[0-9]{1,4}$ ]] || nodes=0; } 2>/dev/null
knows_others() { [[ $(<${storagePath(spec.config)}/raft_state.json) =~ ${release}-[1-9][0-9]*[.] ]]; } 2>/dev/null
answers() {
  (exec 3<>"/dev/tcp/$1/${port}") 2>/dev/null &
  local check=$!
  for _ in 1 2 3 4 5; do kill -0 $check 2>/dev/null || break; sleep 0.4; done
  kill $check 2>/dev/null
  wait $check 2>/dev/null
}
if [ "\${HOSTNAME##*-}" = 0 ]; then
  formed_nodes
  while [ $nodes -gt 1 ] && ! knows_others; do
    for ((i = 1; i < nodes; i++)); do
      host=${release}-$i.${release}-headless
      if answers $host; then
        echo "the volume of node 0 names no other node: joining the formed cluster through $host"
        export QDRANT_BOOTSTRAP=${enableTls ? 'https' : 'http'}://$host:${port}
        break 2
      fi
    done
    echo "the volume of node 0 names no other node, and the cluster was formed with $nodes nodes: waiting for another node"
    sleep 2
    formed_nodes
  done
fi
exec ./config/initialize.sh
`
}

/** Where the engine stores its consensus state, relative to its working directory. */
function storagePath(config: Values): string {
  const { storage } = config
  const path = isMap(storage) ? storage['storage_path'] : undefined
  return typeof path === 'string' && /^[\w./-]+$/.test(path) ? path : './storage'
}
