/** The documents by which clients learn which kinds there are. */
import { apiVersionOf, type Kind, type Kinds } from './kinds.ts'

const VERBS = ['create', 'delete', 'deletecollection', 'get', 'list', 'patch', 'update', 'watch']

/** The document at a path of discovery; undefined when the path is none. */
export function discovery(kinds: Kinds, path: string): object | undefined {
  const parts = path.split('/').filter((part) => part !== '')
  const [root, first, second, ...rest] = parts
  if (rest.length > 0) return undefined
  if (root === 'version') return VERSION
  if (root === 'api' && second === undefined) {
    return first === undefined
      ? { kind: 'APIVersions', versions: ['v1'] }
      : resourceList(kinds, '', first)
  }
  if (root !== 'apis') return undefined
  if (first === undefined) return { kind: 'APIGroupList', apiVersion: 'v1', groups: groups(kinds) }
  if (second !== undefined) return resourceList(kinds, first, second)
  const group = groups(kinds).find(({ name }) => name === first)
  return group === undefined ? undefined : { kind: 'APIGroup', apiVersion: 'v1', ...group }
}

const VERSION = {
  major: '1',
  minor: '34',
  gitVersion: 'v1.34.4',
  gitCommit: 'embedded',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: 'none',
  compiler: 'none',
  platform: 'embedded',
}

function groups(kinds: Kinds) {
  const names = new Set(kinds.all().map(({ group }) => group))
  names.delete('')
  return [...names].map((name) => {
    const versions = [
      ...new Set(
        kinds
          .all()
          .filter(({ group }) => group === name)
          .map(({ version }) => version),
      ),
    ].map((version) => ({ groupVersion: `${name}/${version}`, version }))
    return { name, versions, preferredVersion: versions[0] }
  })
}

function resourceList(kinds: Kinds, group: string, version: string): object | undefined {
  const served = kinds.all().filter((kind) => kind.group === group && kind.version === version)
  if (served.length === 0) return undefined
  return {
    kind: 'APIResourceList',
    apiVersion: 'v1',
    groupVersion: apiVersionOf({ group, version }),
    resources: served.flatMap(resources),
  }
}

function resources(kind: Kind): object[] {
  const { plural, namespaced } = kind
  const status = {
    singularName: '',
    namespaced,
    kind: kind.kind,
    verbs: ['get', 'patch', 'update'],
  }
  return [
    {
      name: plural,
      singularName: kind.singular,
      namespaced,
      kind: kind.kind,
      verbs: VERBS,
      ...(kind.shortNames.length > 0 && { shortNames: kind.shortNames }),
    },
    ...(kind.status ? [{ ...status, name: `${plural}/status` }] : []),
  ]
}
