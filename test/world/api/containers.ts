/** What Kubernetes has against the containers of a pod. */
import { parseQuantity } from '../../../crds/units.ts'
import {
  atLeast,
  dnsLabel,
  invalidValue,
  isAbsent,
  itemsOf,
  notAllowed,
  notThere,
  oneOf,
  repeated,
  required,
} from './causes.ts'
import type { Cause } from './failure.ts'
import { isRecord, recordAt, type Json } from './json.ts'
import { oneSource, seccompCauses } from './pod-parts.ts'
import { probeCauses } from './probes.ts'

/** Containers of both kinds; their names are unique in the pod. */
export function containerCauses(spec: Json, path: string, volumes: ReadonlySet<string>): Cause[] {
  const containers = itemsOf(spec['containers'], `${path}.containers`)
  const init = itemsOf(spec['initContainers'], `${path}.initContainers`)
  const names = [...containers, ...init].map(({ item, path: at }) => ({
    field: `${at}.name`,
    value: item['name'],
  }))
  return [
    ...(containers.length === 0 ? [required(`${path}.containers`)] : []),
    ...repeated(names),
    ...[...containers, ...init].flatMap(({ item, path: at }) => causesOf(item, at, volumes)),
  ]
}

function causesOf(container: Json, path: string, volumes: ReadonlySet<string>): Cause[] {
  const policies = ['Always', 'IfNotPresent', 'Never']
  const messages = ['File', 'FallbackToLogsOnError']
  return [
    ...dnsLabel(`${path}.name`, container['name']),
    ...(isAbsent(container['image']) ? [required(`${path}.image`)] : []),
    ...oneOf(`${path}.imagePullPolicy`, container['imagePullPolicy'], policies),
    ...oneOf(`${path}.terminationMessagePolicy`, container['terminationMessagePolicy'], messages),
    ...portCauses(container['ports'], `${path}.ports`),
    ...envCauses(container, path),
    ...mountCauses(container['volumeMounts'], `${path}.volumeMounts`, volumes),
    ...resourceCauses(recordAt(container, 'resources'), `${path}.resources`),
    ...securityCauses(recordAt(container, 'securityContext'), `${path}.securityContext`),
    ...probeCauses(container, path),
  ]
}

const PORT_NAME = /^(?=.*[a-z])[a-z0-9]+(-[a-z0-9]+)*$/

function portCauses(list: unknown, path: string): Cause[] {
  const ports = itemsOf(list, path)
  return [
    ...repeated(ports.map(({ item, path: at }) => ({ field: `${at}.name`, value: item['name'] }))),
    ...ports.flatMap(({ item: { name, containerPort, protocol }, path: at }) => [
      ...(isAbsent(name) || (PORT_NAME.test(String(name)) && String(name).length <= 15)
        ? []
        : [invalidValue(`${at}.name`, name, 'must be a service name of at most 15 characters')]),
      ...(isAbsent(containerPort) || containerPort === 0
        ? [required(`${at}.containerPort`)]
        : portNumber(`${at}.containerPort`, containerPort)),
      ...oneOf(`${at}.protocol`, protocol, ['SCTP', 'TCP', 'UDP']),
    ]),
  ]
}

/** A port by number; by name it may be anything that a port is called. */
export function portNumber(field: string, value: unknown): Cause[] {
  if (typeof value !== 'number' || (value >= 1 && value <= 65_535)) return []
  return [invalidValue(field, value, 'must be between 1 and 65535, inclusive')]
}

/** Printable ASCII without an equals sign. */
const ENV_NAME = /^[ -<>-~]+$/
const FIELD =
  /^(metadata\.(name|namespace|uid)|metadata\.(labels|annotations)\['[^']+'\]|spec\.(nodeName|serviceAccountName)|status\.(hostIPs?|podIPs?))$/

function envCauses(container: Json, path: string): Cause[] {
  const sources = itemsOf(container['envFrom'], `${path}.envFrom`)
  return [
    ...itemsOf(container['env'], `${path}.env`).flatMap(({ item, path: at }) => [
      ...envName(item['name'], `${at}.name`),
      ...valueFromCauses(item, `${at}.valueFrom`),
    ]),
    ...sources
      .filter(({ item }) => !oneSource(item, ['configMapRef', 'secretRef']))
      .map(() => invalidValue(`${path}.envFrom`, '', 'must specify one source')),
  ]
}

function envName(name: unknown, field: string): Cause[] {
  if (isAbsent(name)) return [required(field)]
  if (ENV_NAME.test(String(name))) return []
  return [invalidValue(field, name, "must be printable ASCII characters other than '='")]
}

const SOURCES = ['fieldRef', 'resourceFieldRef', 'configMapKeyRef', 'secretKeyRef', 'fileKeyRef']

function valueFromCauses({ value, valueFrom }: Json, path: string): Cause[] {
  if (!isRecord(valueFrom)) return []
  if (!oneSource(valueFrom, SOURCES)) return [invalidValue(path, '', 'must specify one source')]
  if (!isAbsent(value))
    return [invalidValue(path, '', 'may not be specified when `value` is not empty')]
  const { fieldRef, secretKeyRef, configMapKeyRef } = valueFrom
  const field = isRecord(fieldRef) ? fieldRef['fieldPath'] : undefined
  const isKnown = !isRecord(fieldRef) || FIELD.test(String(field))
  return [
    ...(isKnown ? [] : [invalidValue(`${path}.fieldRef.fieldPath`, field, 'not a known field')]),
    ...keyCauses(secretKeyRef, `${path}.secretKeyRef`),
    ...keyCauses(configMapKeyRef, `${path}.configMapKeyRef`),
  ]
}

function keyCauses(reference: unknown, path: string): Cause[] {
  return isRecord(reference) && isAbsent(reference['key']) ? [required(`${path}.key`)] : []
}

function mountCauses(list: unknown, path: string, volumes: ReadonlySet<string>): Cause[] {
  const paths = new Set<unknown>()
  return itemsOf(list, path).flatMap(({ item: { name, mountPath, subPath }, path: at }) => {
    const isRepeated = paths.has(mountPath)
    paths.add(mountPath)
    const inVolume = typeof subPath === 'string' ? subPath : ''
    const leaves = inVolume.startsWith('/') || inVolume.split('/').includes('..')
    return [
      ...(isAbsent(name) ? [required(`${at}.name`)] : []),
      ...(volumes.has(String(name)) ? [] : [notThere(`${at}.name`, name ?? '')]),
      ...(isAbsent(mountPath) ? [required(`${at}.mountPath`)] : []),
      ...(isRepeated ? [invalidValue(`${at}.mountPath`, mountPath, 'must be unique')] : []),
      // Kubernetes does not say of which mount.
      ...(leaves ? [invalidValue(`${path}.subPath`, subPath, 'must be a relative path')] : []),
    ]
  })
}

const NATIVE = /^(cpu|memory|ephemeral-storage|hugepages-.+)$/

function resourceCauses({ limits, requests }: Json, path: string): Cause[] {
  const above = Object.keys(isRecord(requests) ? requests : {}).filter(
    (name) =>
      amount(limits, name) !== undefined &&
      (amount(requests, name) ?? 0) > (amount(limits, name) ?? 0),
  )
  const unlimited = Object.keys(isRecord(requests) ? requests : {}).filter(
    (name) => name.includes('/') && amount(limits, name) === undefined,
  )
  return [
    ...amountCauses(limits, `${path}.limits`),
    ...amountCauses(requests, `${path}.requests`),
    ...above.map((name) =>
      invalidValue(
        `${path}.requests`,
        amount(requests, name),
        `must be less than or equal to ${name} limit`,
      ),
    ),
    ...unlimited.map(() =>
      required(`${path}.limits`, 'Limit must be set for non overcommitable resources'),
    ),
  ]
}

function amountCauses(amounts: unknown, path: string): Cause[] {
  return Object.keys(isRecord(amounts) ? amounts : {}).flatMap((name) => {
    const field = `${path}[${name}]`
    if (!NATIVE.test(name) && !name.includes('/')) {
      return [invalidValue(field, name, 'must be a standard resource for containers')]
    }
    return atLeast(field, amount(amounts, name), 0)
  })
}

function amount(amounts: unknown, name: string): number | undefined {
  const value = isRecord(amounts) ? amounts[name] : undefined
  if (value === undefined) return undefined
  const text = typeof value === 'number' ? String(value) : value
  if (typeof text !== 'string') return undefined
  return text.startsWith('-') ? -parseQuantity(text.slice(1)) : parseQuantity(text)
}

function securityCauses(context: Json, path: string): Cause[] {
  const gains = context['allowPrivilegeEscalation']
  const isMixed = context['privileged'] === true && gains === false
  return [
    ...atLeast(`${path}.runAsUser`, context['runAsUser'], 0),
    ...atLeast(`${path}.runAsGroup`, context['runAsGroup'], 0),
    ...seccompCauses(context['seccompProfile'], `${path}.seccompProfile`),
    ...(context['privileged'] === true
      ? [notAllowed(`${path}.privileged`, 'disallowed by cluster policy')]
      : []),
    ...(isMixed
      ? [
          invalidValue(
            path,
            '',
            'cannot set `allowPrivilegeEscalation` to false and `privileged` to true',
          ),
        ]
      : []),
  ]
}
