/** The config of a collection as the engine shows it. */
import type { CollectionConfig } from '../../../crds/engine/collections.ts'

export interface ConfigOverrides {
  params?: object
  hnsw_config?: object
  optimizer_config?: object
  quantization_config?: object | null
  strict_mode_config?: object
}

export function config(overrides: ConfigOverrides): CollectionConfig {
  return {
    params: {
      vectors: { size: 4, distance: 'Cosine' },
      shard_number: 3,
      replication_factor: 1,
      ...overrides.params,
    },
    hnsw_config: { m: 16, on_disk: false, ...overrides.hnsw_config },
    optimizer_config: { max_optimization_threads: null, ...overrides.optimizer_config },
    ...(overrides.quantization_config !== undefined && {
      quantization_config: overrides.quantization_config && { ...overrides.quantization_config },
    }),
    ...(overrides.strict_mode_config !== undefined && {
      strict_mode_config: { ...overrides.strict_mode_config },
    }),
  }
}

export const singleVector = (overrides: object) => ({
  params: { vectors: { size: 4, distance: 'Cosine', ...overrides } },
})
