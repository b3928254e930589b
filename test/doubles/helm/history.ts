/** The revisions of a release: one Secret each, named and labelled as helm does it. */
import { gunzipSync, gzipSync } from 'node:zlib'
import type { ApiClient, ApiObject } from '../../world/client.ts'
import type { Rendered } from '../chart-objects.ts'

export type Status =
  'pending-install' | 'pending-upgrade' | 'deployed' | 'superseded' | 'failed' | 'uninstalling'

export interface Revision {
  version: number
  status: Status
  chartVersion: string
  objects: Rendered[]
  description: string
}

const MAX_HISTORY = 10

export class History {
  readonly #api: ApiClient
  readonly release: string
  readonly namespace: string

  constructor(api: ApiClient, release: string, namespace: string) {
    this.#api = api
    this.release = release
    this.namespace = namespace
  }

  /** Oldest first. */
  async revisions(): Promise<Revision[]> {
    const labelSelector = `owner=helm,name=${this.release}`
    const { namespace } = this
    const { items } = await this.#api.list('v1', 'Secret', { namespace, labelSelector })
    return items.map(decode).sort((a, b) => a.version - b.version)
  }

  async add(revision: Revision): Promise<void> {
    await this.#api.create(this.#secret(revision))
    const outdated = (await this.revisions()).slice(0, -MAX_HISTORY)
    for (const { version } of outdated) await this.remove(version)
  }

  async mark(revision: Revision, status: Status, description = revision.description) {
    await this.#api.patch(
      this.#reference(revision.version),
      this.#secret({ ...revision, status, description }),
    )
  }

  async remove(version: number): Promise<void> {
    await this.#api.delete(this.#reference(version))
  }

  #reference(version: number) {
    const name = `sh.helm.release.v1.${this.release}.v${version}`
    return { apiVersion: 'v1', kind: 'Secret', namespace: this.namespace, name }
  }

  #secret(revision: Revision): object {
    const { apiVersion, kind, namespace, name } = this.#reference(revision.version)
    const { release } = this
    const labels = {
      name: release,
      owner: 'helm',
      status: revision.status,
      version: String(revision.version),
    }
    const packed = gzipSync(JSON.stringify(revision)).toString('base64')
    return {
      apiVersion,
      kind,
      metadata: { name, namespace, labels },
      type: 'helm.sh/release.v1',
      data: { release: Buffer.from(packed).toString('base64') },
    }
  }
}

function decode(secret: ApiObject): Revision {
  const { release = '' } = secret['data'] as { release?: string }
  const packed = Buffer.from(Buffer.from(release, 'base64').toString(), 'base64')
  return JSON.parse(gunzipSync(packed).toString()) as Revision
}
