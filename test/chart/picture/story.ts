/** The data of the dashboard picture: two hours of the embedded world, and the metrics of its service. */
import { resource, untilPhase } from '../../scenarios/inside.ts'
import { backupResource, fill, points } from '../../scenarios/backup-parts.ts'
import { running } from '../../scenarios/scenario.ts'
import { startEmbeddedWorld, type EmbeddedWorld } from '../../world/embedded.ts'
import type { Sample } from './prometheus.ts'

const EVERY_SECONDS = 30
const POINTS = 4_000
const MINUTE = 60
const TARGET = 'job="vec-operator",instance="vec-operator:8080"'

/** A quiet hour with backups, a cluster that loses its pod, points that are copied meanwhile. */
export async function liveTwoHours(): Promise<Sample[]> {
  const world = await startEmbeddedWorld()
  try {
    const samples: Sample[] = []
    const { docs, copy } = await prepare(world)
    await watched(world, samples, 60 * MINUTE)
    await world.faults.breakPod(docs, 'vec-shop-0')
    await watched(world, samples, 15 * MINUTE)
    await copy()
    await watched(world, samples, 45 * MINUTE)
    return samples
  } finally {
    await world.close()
  }
}

async function prepare(world: EmbeddedWorld) {
  const docs = await world.namespace('team')
  const bucket = await world.bucket(docs)
  const spec = { apiKey: { autoGenerate: true, jwtRbac: true } }
  await running(world, docs, 'a', spec)
  await running(world, docs, 'shop', spec)
  const books = await fill(world, docs, 'books')
  for (let from = 1; from <= POINTS; from += 500) {
    await books.upsert({ points: points(500, from) })
  }
  for (const [name, cluster] of [
    ['films', 'a'],
    ['orders', 'shop'],
  ] as const) {
    const { of, reference } = resource('VecCollection', docs, name)
    const clusterRef = { name: cluster }
    await world.apply(of({ clusterRef, vectors: [{ size: 4, distance: 'Dot' }] }))
    await untilPhase(world, reference, 'Ready', 600)
  }
  const reader = resource('VecAccessKey', docs, 'reader')
  await world.apply(reader.of({ access: 'r', ttl: '3h' }))
  const nightly = backupResource('VecBackupSchedule', { namespace: docs, name: 'often' }, bucket)
  await world.apply(nightly.of({ schedule: '*/20 * * * *', retentionPolicy: { keepLast: 3 } }))
  const copy = () => world.apply(migrationOf(docs))
  return { docs, copy }
}

function migrationOf(namespace: string): object {
  return {
    apiVersion: 'vec-operator.dev/v1alpha1',
    kind: 'VecMigration',
    metadata: { namespace, name: 'copy' },
    spec: {
      source: { clusterRef: { name: 'a' } },
      targetClusterRef: { name: 'a' },
      collections: ['books'],
      collectionMapping: { books: 'books-copy' },
    },
  }
}

/** Time passes, and the metrics are read as Prometheus would. */
async function watched(world: EmbeddedWorld, samples: Sample[], seconds: number): Promise<void> {
  const [, url = ''] = /"url":"(http:[^"]+)"/.exec(await world.serviceLog()) ?? []
  for (let passed = 0; passed < seconds; passed += EVERY_SECONDS) {
    await world.advance(EVERY_SECONDS)
    const answer = await fetch(`${url}/metrics`)
    const text = await answer.text()
    samples.push({ at: world.clock.now().getTime() / 1000, text, target: TARGET })
  }
}
