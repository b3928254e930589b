/**
 * Buckets of the world's S3 store: made for a scenario, with a Secret that holds their keys, and looked
 * at from outside the operator. Both worlds use this, in front of one server or the other.
 */
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  PutObjectCommand,
  S3Client,
  paginateListObjectsV2,
} from '@aws-sdk/client-s3'
import type { ApiClient } from '../client.ts'
import { applyObject } from '../apply.ts'
import { NotSupported, type WorldBucket } from '../world.ts'
import { openGate, type Gate } from './gate.ts'

export interface StoreAccess {
  /** Where the server answers. */
  endpoint: string
  accessKeyId: string
  secretAccessKey: string
  region?: string
}

export interface Buckets {
  /** A bucket named after the namespace, and in there a Secret with the keys to it. */
  open(namespace: string): Promise<WorldBucket>
  /** When the store was last called, by the machine's clock. */
  heardAt(): number
  close(): Promise<void>
}

interface BucketsOptions {
  api: ApiClient
  store: StoreAccess
  /** Address for the gate in front of the store; absent if the store belongs to others. */
  gateHost?: string
}

const SECRET = 'bucket'

export async function openBuckets({ api, store, gateHost }: BucketsOptions): Promise<Buckets> {
  const { endpoint, accessKeyId, secretAccessKey, region = 'us-east-1' } = store
  const gate = gateHost === undefined ? undefined : await openGate(endpoint, gateHost)
  const access = { endpoint: gate?.url ?? endpoint, region, accessKeyId, secretAccessKey }
  const client = new S3Client({
    endpoint,
    region,
    forcePathStyle: true,
    credentials: { accessKeyId, secretAccessKey },
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  })
  const opened: string[] = []
  return {
    async open(namespace) {
      await client.send(new CreateBucketCommand({ Bucket: namespace }))
      opened.push(namespace)
      await admit(api, namespace, store)
      return {
        ...lookAt(client, namespace),
        ...faultsOf(gate, namespace),
        access,
        grantAccess: (other) => admit(api, other, store),
        target: targetOf(namespace, access),
      }
    },
    heardAt: () => gate?.heardAt() ?? 0,
    async close() {
      // In a store that belongs to others nothing may stay behind.
      if (gate === undefined) for (const bucket of opened) await drop(client, bucket)
      client.destroy()
      await gate?.close()
    },
  }
}

async function admit(api: ApiClient, namespace: string, store: StoreAccess): Promise<void> {
  await applyObject(api, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: SECRET },
    data: {
      CLOUD_ACCESS_KEY_ID: base64(store.accessKeyId),
      CLOUD_SECRET_ACCESS_KEY: base64(store.secretAccessKey),
    },
  })
}

function targetOf(bucket: string, { endpoint, region }: { endpoint: string; region: string }) {
  const credentialsSecretRef = { name: SECRET }
  return { bucket, prefix: '', region, endpoint, forcePathStyle: true, credentialsSecretRef }
}

type Look = Pick<WorldBucket, 'name' | 'keys' | 'json' | 'put' | 'remove'>

/** By calls of the test itself, which meet no fault and are not counted. */
function lookAt(client: S3Client, bucket: string): Look {
  const keys = async (prefix = '') => {
    const found: string[] = []
    const query = { Bucket: bucket, Prefix: prefix }
    for await (const { Contents = [] } of paginateListObjectsV2({ client }, query)) {
      found.push(...Contents.map(({ Key = '' }) => Key))
    }
    return found
  }
  return {
    name: bucket,
    keys,
    async json(key) {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }))
      return JSON.parse((await Body?.transformToString()) ?? '') as unknown
    },
    async put(key, body) {
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: key, Body: body }))
    },
    async remove(key) {
      await client.send(new DeleteObjectCommand({ Bucket: bucket, Key: key }))
    },
  }
}

function faultsOf(
  gate: Gate | undefined,
  bucket: string,
): Pick<WorldBucket, 'calls' | 'misbehave'> {
  const here = () => {
    if (gate !== undefined) return gate
    throw new NotSupported('what the store is called for is seen on the local cluster only')
  }
  return {
    calls: () => here().calls(bucket),
    misbehave: (decide) => here().misbehave(bucket, decide),
  }
}

async function drop(client: S3Client, bucket: string): Promise<void> {
  const { keys, remove } = lookAt(client, bucket)
  for (const key of await keys()) await remove(key)
  await client.send(new DeleteBucketCommand({ Bucket: bucket }))
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
