/**
 * How large the image is. Building it takes a container's tools: the cluster suite does so, refuses one
 * that has grown, and what it recorded last stands here.
 */
import { statSync } from 'node:fs'
import { recordedBytes } from '../cluster/image-size.ts'
import type { Part } from './part.ts'

export const image: Part = {
  name: 'image',
  title: 'image, as it was recorded last',
  columns: ['ours', 'Node alone'],
  measure: async () => [
    {
      ...{ what: 'size', unit: 'MB', value: recordedBytes() / 1e6 },
      yardstick: statSync(process.execPath).size / 1e6,
    },
  ],
}
