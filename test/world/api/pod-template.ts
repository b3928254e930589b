/** What Kubernetes has against the spec of a pod, in a pod or in the template of one. */
import {
  atLeast,
  dnsLabel,
  dnsSubdomain,
  invalidValue,
  isAbsent,
  itemsOf,
  notAllowed,
  oneOf,
  repeated,
  required,
} from './causes.ts'
import { containerCauses } from './containers.ts'
import type { Cause } from './failure.ts'
import { fieldsOf } from './models.ts'
import { isRecord, recordAt, valueAt, type Json } from './json.ts'
import { seccompCauses } from './pod-parts.ts'
import { schedulingCauses } from './scheduling.ts'

const POLICIES = ['Always', 'OnFailure', 'Never']
const DNS_POLICIES = ['ClusterFirst', 'ClusterFirstWithHostNet', 'Default', 'None']

/** `claims` are volumes that a StatefulSet adds. */
export function podCauses(spec: Json, path: string, claims: readonly string[] = []): Cause[] {
  const volumes = itemsOf(spec['volumes'], `${path}.volumes`)
  const names = new Set([...volumes.map(({ item }) => String(item['name'])), ...claims])
  const context = recordAt(spec, 'securityContext')
  const at = `${path}.securityContext`
  return [
    ...volumeCauses(volumes),
    ...containerCauses(spec, path, names),
    ...oneOf(`${path}.restartPolicy`, spec['restartPolicy'], POLICIES),
    ...oneOf(`${path}.dnsPolicy`, spec['dnsPolicy'], DNS_POLICIES),
    ...atLeast(`${path}.activeDeadlineSeconds`, spec['activeDeadlineSeconds'], 1),
    ...dnsSubdomain(`${path}.serviceAccountName`, spec['serviceAccountName']),
    ...dnsSubdomain(`${path}.priorityClassName`, spec['priorityClassName']),
    ...(isAbsent(spec['hostname']) ? [] : dnsLabel(`${path}.hostname`, spec['hostname'])),
    ...['runAsUser', 'runAsGroup', 'fsGroup'].flatMap((id) =>
      atLeast(`${at}.${id}`, context[id], 0),
    ),
    ...oneOf(`${at}.fsGroupChangePolicy`, context['fsGroupChangePolicy'], [
      'OnRootMismatch',
      'Always',
    ]),
    ...seccompCauses(context['seccompProfile'], `${at}.seccompProfile`),
    ...schedulingCauses(spec, path),
  ]
}

interface Item {
  item: Json
  path: string
}

function volumeCauses(volumes: Item[]): Cause[] {
  return [
    ...repeated(volumes.map(({ item, path }) => ({ field: `${path}.name`, value: item['name'] }))),
    ...volumes.flatMap(({ item, path }) => [
      ...dnsLabel(`${path}.name`, item['name']),
      ...sourceCauses(item, path),
    ]),
  ]
}

/** The order in which Kubernetes counts sources: each after the first is one too many. */
const FIRST = ['emptyDir', 'hostPath', 'gitRepo']
/** The field that names what is mounted. */
const NAMED: Record<string, string> = {
  secret: 'secretName',
  configMap: 'name',
  persistentVolumeClaim: 'claimName',
}

function sourceCauses(volume: Json, path: string): Cause[] {
  const sources = [...(fieldsOf('V1Volume')?.keys() ?? [])].filter((name) => isRecord(volume[name]))
  const [, ...more] = sources.toSorted((a, b) => rank(a) - rank(b))
  return [
    ...more.map((name) => notAllowed(`${path}.${name}`, 'may not specify more than 1 volume type')),
    ...sources
      .filter((name) => !more.includes(name))
      .flatMap((name) => ofSource(recordAt(volume, name), name, `${path}.${name}`)),
  ]
}

function rank(source: string): number {
  const index = FIRST.indexOf(source)
  return index === -1 ? FIRST.length : index
}

const MAX_MODE = 0o777

function ofSource(source: Json, kind: string, path: string): Cause[] {
  const name = NAMED[kind]
  const mode = source['defaultMode']
  return [
    ...(name !== undefined && isAbsent(source[name]) ? [required(`${path}.${name}`)] : []),
    ...(mode !== undefined && !(Number(mode) >= 0 && Number(mode) <= MAX_MODE)
      ? [invalidValue(`${path}.defaultMode`, mode, 'must be a number between 0 and 0777 (octal)')]
      : []),
    ...itemsOf(valueAt(source, 'items'), `${path}.items`).flatMap(({ item, path: at }) =>
      String(item['path']).split('/').includes('..')
        ? [invalidValue(`${at}.path`, item['path'], "must not contain '..'")]
        : [],
    ),
  ]
}
