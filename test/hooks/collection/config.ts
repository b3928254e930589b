/** The config of a collection as the engine shows it. */
import type { CollectionConfig } from '../../../crds/rules/answers.ts'

export interface Live {
  params?: object
  hnsw_config?: object
  optimizer_config?: object
  quantization_config?: object | null
  strict_mode_config?: object
}

export function config(live: Live): CollectionConfig {
  return {
    params: {
      vectors: { size: 4, distance: 'Cosine' },
      shard_number: 3,
      replication_factor: 1,
      ...live.params,
    },
    hnsw_config: { m: 16, on_disk: false, ...live.hnsw_config },
    optimizer_config: { max_optimization_threads: null, ...live.optimizer_config },
    ...(live.quantization_config !== undefined && {
      quantization_config: live.quantization_config && { ...live.quantization_config },
    }),
    ...(live.strict_mode_config !== undefined && {
      strict_mode_config: { ...live.strict_mode_config },
    }),
  }
}

export const single = (live: object) => ({
  params: { vectors: { size: 4, distance: 'Cosine', ...live } },
})
