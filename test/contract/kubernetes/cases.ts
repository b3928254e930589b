/** What a real API server accepts of a Job and of the other kinds that we write, and what it refuses. */
import type { Json } from '../../world/api/json.ts'
import { container, job, object, pod, statefulSet } from './objects.ts'

export interface Case {
  title: string
  object: Json
  /** As a client that validates asks for it; without, unknown fields are dropped with a warning. */
  isStrict?: true
  /** A merge patch of the created object. */
  patch?: Json
}

const LONG = 'a'.repeat(64)
const secretVolume = { name: 'key', secret: { secretName: 'key' } }
const spread = { maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'DoNotSchedule' }
const failJob = (rule: Json) =>
  job({ podFailurePolicy: { rules: [{ action: 'FailJob', ...rule }] } })
const http = { httpGet: { port: 80 } }

const STRUCTURE: Case[] = [
  { title: 'a Job like ours', object: job({ backoffLimit: 6 }) },
  { title: 'an unknown field of the spec', object: job({ backofLimit: 6 }) },
  {
    title: 'an unknown field, to a client that validates',
    object: job({ backofLimit: 6 }),
    isStrict: true,
  },
  { title: 'an unknown field of a container', object: container({ comand: ['a'] }) },
  {
    title: 'unknown fields in several places',
    object: job({ x: 1, template: { y: 2, spec: { z: 3 } } }),
    isStrict: true,
  },
  { title: 'an unknown field of the metadata', object: job({}, { lables: {} }) },
  { title: 'an unknown field of a Secret', object: object('Secret', { datas: {} }) },
  { title: 'null for a list', object: pod({ tolerations: [null] }) },
  { title: 'text for a number', object: job({ backoffLimit: '6' }) },
  { title: 'a fraction for a number', object: job({ backoffLimit: 1.5 }) },
  { title: 'a number above its format', object: job({ backoffLimit: 2 ** 31 }) },
  { title: 'a number for text', object: pod({ serviceAccountName: 5 }) },
  { title: 'text for a truth value', object: pod({ enableServiceLinks: 'false' }) },
  { title: 'an object for a list', object: pod({ containers: { name: 'a' } }) },
  { title: 'text for a list', object: container({ args: 'a' }) },
  { title: 'a list for an object', object: pod({ securityContext: [] }) },
  { title: 'a number in a map of texts', object: pod({ nodeSelector: { a: 1 } }) },
  { title: 'text for an object', object: job({ template: 'a' }) },
  { title: 'a date that is none', object: job({}, { creationTimestamp: 'today' }) },
  { title: 'a number as a label', object: job({}, { labels: { a: 1 } }) },
  {
    title: 'text for a list in RBAC',
    object: { ...object('Role', { rules: 'all' }), apiVersion: 'rbac.authorization.k8s.io/v1' },
  },
  {
    title: 'a patch with an unknown field',
    object: job({}),
    patch: { spec: { paralelism: 1 } },
  },
  {
    title: 'a patch with text for a number',
    object: job({}),
    patch: { spec: { backoffLimit: 'a' } },
  },
]

const JOBS: Case[] = [
  { title: 'a Job without a template', object: job({ template: null }) },
  { title: 'a Job that restarts its pods always', object: pod({ restartPolicy: 'Always' }) },
  { title: 'a Job without a restart policy', object: pod({ restartPolicy: null }) },
  { title: 'a Job whose restart policy is a typo', object: pod({ restartPolicy: 'never' }) },
  { title: 'a negative backoff limit', object: job({ backoffLimit: -1 }) },
  { title: 'a negative parallelism', object: job({ parallelism: -1 }) },
  { title: 'a negative number of completions', object: job({ completions: -1 }) },
  { title: 'a negative deadline of a Job', object: job({ activeDeadlineSeconds: -1 }) },
  { title: 'a negative time to live', object: job({ ttlSecondsAfterFinished: -1 }) },
  { title: 'an unknown mode of completion', object: job({ completionMode: 'All' }) },
  { title: 'an unknown policy of replacement', object: job({ podReplacementPolicy: 'Never' }) },
  {
    title: 'a Job with a selector of its own',
    object: job({ selector: { matchLabels: { a: 'b' } } }),
  },
  {
    title: 'a Job whose name is a label of 63 characters',
    object: job({}, { name: 'a'.repeat(63) }),
  },
  { title: 'a Job whose name is longer than a label', object: job({}, { name: LONG }) },
  { title: 'a Job whose name has dots', object: job({}, { name: 'a.b' }) },
  {
    title: 'a failure policy for an unknown container',
    object: failJob({ onExitCodes: { containerName: 'other', operator: 'In', values: [1] } }),
  },
  {
    title: 'a failure policy without values',
    object: failJob({ onExitCodes: { operator: 'In', values: [] } }),
  },
  {
    title: 'a failure policy with an unknown operator',
    object: failJob({ onExitCodes: { operator: 'is', values: [1] } }),
  },
  {
    title: 'a failure policy for success',
    object: failJob({ onExitCodes: { operator: 'In', values: [0] } }),
  },
  {
    title: 'a failure policy with values that repeat',
    object: failJob({ onExitCodes: { operator: 'In', values: [1, 1] } }),
  },
  { title: 'a failure policy without a condition', object: failJob({}) },
  {
    title: 'a failure policy with two conditions',
    object: failJob({
      onExitCodes: { operator: 'In', values: [1] },
      onPodConditions: [{ type: 'a', status: 'True' }],
    }),
  },
  {
    title: 'a failure policy with an unknown action',
    object: failJob({ action: 'Stop', onPodConditions: [{ type: 'a', status: 'True' }] }),
  },
  {
    title: 'a failure policy without a status',
    object: failJob({ onPodConditions: [{ type: 'DisruptionTarget' }] }),
  },
  {
    title: 'a failure policy with an unknown status',
    object: failJob({ onPodConditions: [{ type: 'a', status: 'Yes' }] }),
  },
  {
    title: 'a failure policy of a Job that restarts on failure',
    object: job({
      podFailurePolicy: {
        rules: [{ action: 'Ignore', onPodConditions: [{ type: 'a', status: 'True' }] }],
      },
      template: { spec: { restartPolicy: 'OnFailure' } },
    }),
  },
]

const CONTAINERS: Case[] = [
  { title: 'no containers', object: pod({ containers: [] }) },
  { title: 'a container without anything', object: pod({ containers: [{}] }) },
  { title: 'a container without a name', object: container({ name: null }) },
  { title: 'a container without an image', object: container({ image: null }) },
  { title: 'an image with a space around it', object: container({ image: ' a' }) },
  { title: 'a container whose name has a capital', object: container({ name: 'Backup' }) },
  { title: 'a container whose name is longer than a label', object: container({ name: LONG }) },
  {
    title: 'two containers of one name',
    object: pod({
      containers: [
        { name: 'a', image: 'i' },
        { name: 'a', image: 'i' },
      ],
    }),
  },
  {
    title: 'an init container with the name of another container',
    object: pod({
      containers: [{ name: 'a', image: 'i' }],
      initContainers: [{ name: 'a', image: 'i' }],
    }),
  },
  { title: 'an init container without an image', object: pod({ initContainers: [{ name: 'a' }] }) },
  { title: 'an unknown pull policy', object: container({ imagePullPolicy: 'Sometimes' }) },
  {
    title: 'an unknown policy of the last message',
    object: container({ terminationMessagePolicy: 'Log' }),
  },
  { title: 'a variable without a name', object: container({ env: [{ value: 'a' }] }) },
  {
    title: 'a variable whose name has an equals sign',
    object: container({ env: [{ name: 'A=B' }] }),
  },
  {
    title: 'a variable whose name has a space and a dash',
    object: container({ env: [{ name: 'A -B' }] }),
  },
  { title: 'a variable whose name is not ASCII', object: container({ env: [{ name: 'Ä' }] }) },
  { title: 'a variable that is a number', object: container({ env: [{ name: 'A', value: 5 }] }) },
  {
    title: 'a variable with a value and a source',
    object: container({
      env: [{ name: 'A', value: 'a', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } }],
    }),
  },
  {
    title: 'a variable with an empty source',
    object: container({ env: [{ name: 'A', valueFrom: {} }] }),
  },
  {
    title: 'a variable with two sources',
    object: container({
      env: [
        {
          name: 'A',
          valueFrom: {
            fieldRef: { fieldPath: 'metadata.name' },
            secretKeyRef: { name: 'a', key: 'b' },
          },
        },
      ],
    }),
  },
  {
    title: 'a variable from an unknown field',
    object: container({
      env: [{ name: 'A', valueFrom: { fieldRef: { fieldPath: 'metadata.owner' } } }],
    }),
  },
  {
    title: 'a variable from a label',
    object: container({
      env: [
        { name: 'A', valueFrom: { fieldRef: { fieldPath: "metadata.labels['controller-uid']" } } },
      ],
    }),
  },
  {
    title: 'a variable from no key',
    object: container({ env: [{ name: 'A', valueFrom: { secretKeyRef: { name: 'a' } } }] }),
  },
  { title: 'a variable twice', object: container({ env: [{ name: 'A' }, { name: 'A' }] }) },
  { title: 'variables from nothing', object: container({ envFrom: [{}] }) },
  {
    title: 'a mount of a volume that is missing',
    object: container({ volumeMounts: [{ name: 'data', mountPath: '/data' }] }),
  },
  { title: 'a mount without a path', object: container({ volumeMounts: [{ name: 'tmp' }] }) },
  {
    title: 'a mount without a name',
    object: container({ volumeMounts: [{ mountPath: '/data' }] }),
  },
  {
    title: 'two mounts at one path',
    object: container({
      volumeMounts: [
        { name: 'tmp', mountPath: '/a' },
        { name: 'tmp', mountPath: '/a' },
      ],
    }),
  },
  {
    title: 'a mount that leaves its volume',
    object: container({ volumeMounts: [{ name: 'tmp', mountPath: '/a', subPath: '../b' }] }),
  },
  {
    title: 'a mount at an absolute part of its volume',
    object: container({ volumeMounts: [{ name: 'tmp', mountPath: '/a', subPath: '/b' }] }),
  },
  { title: 'a port out of range', object: container({ ports: [{ containerPort: 70_000 }] }) },
  { title: 'a port without a number', object: container({ ports: [{ name: 'http' }] }) },
  {
    title: 'a port whose name is too long',
    object: container({ ports: [{ containerPort: 80, name: 'a-name-of-16-chars' }] }),
  },
  {
    title: 'two ports of one name',
    object: container({
      ports: [
        { containerPort: 80, name: 'http' },
        { containerPort: 81, name: 'http' },
      ],
    }),
  },
  {
    title: 'a port of an unknown protocol',
    object: container({ ports: [{ containerPort: 80, protocol: 'HTTP' }] }),
  },
  {
    title: 'resources',
    object: container({
      resources: {
        requests: { cpu: '100m', memory: '256Mi' },
        limits: { cpu: 1, memory: '1Gi', 'ephemeral-storage': '1G' },
      },
    }),
  },
  {
    title: 'an amount that is none',
    object: container({ resources: { limits: { memory: '1 Gi' } } }),
  },
  {
    title: 'an amount of an unknown unit',
    object: container({ resources: { limits: { memory: '1GB' } } }),
  },
  { title: 'a negative amount', object: container({ resources: { limits: { memory: '-1Gi' } } }) },
  { title: 'an unknown resource', object: container({ resources: { limits: { ram: '1Gi' } } }) },
  {
    title: 'a resource of a device',
    object: container({ resources: { limits: { 'nvidia.com/gpu': '1' } } }),
  },
  {
    title: 'a device that is only requested',
    object: container({ resources: { requests: { 'nvidia.com/gpu': '1' } } }),
  },
  {
    title: 'a request above its limit',
    object: container({ resources: { requests: { memory: '2Gi' }, limits: { memory: '1Gi' } } }),
  },
  { title: 'a user below zero', object: container({ securityContext: { runAsUser: -1 } }) },
  { title: 'a user by name', object: container({ securityContext: { runAsUser: 'root' } }) },
  {
    title: 'a privileged container that may not gain privileges',
    object: container({ securityContext: { privileged: true, allowPrivilegeEscalation: false } }),
  },
  {
    title: 'an unknown seccomp profile',
    object: container({ securityContext: { seccompProfile: { type: 'Default' } } }),
  },
  {
    title: 'a seccomp profile without a type',
    object: container({ securityContext: { seccompProfile: {} } }),
  },
  {
    title: 'capabilities that are no list',
    object: container({ securityContext: { capabilities: { drop: 'ALL' } } }),
  },
  {
    title: 'a probe without a handler',
    object: container({ readinessProbe: { periodSeconds: 5 } }),
  },
  {
    title: 'a probe with two handlers',
    object: container({ readinessProbe: { ...http, tcpSocket: { port: 80 } } }),
  },
  {
    title: 'a probe with a negative period',
    object: container({ readinessProbe: { ...http, periodSeconds: -1 } }),
  },
  {
    title: 'a liveness probe that succeeds twice',
    object: container({ livenessProbe: { ...http, successThreshold: 2 } }),
  },
  {
    title: 'a probe of an unknown scheme',
    object: container({ readinessProbe: { httpGet: { port: 80, scheme: 'TLS' } } }),
  },
  { title: 'a probe of port 0', object: container({ readinessProbe: { httpGet: { port: 0 } } }) },
  {
    title: 'a hook before the stop without a handler',
    object: container({ lifecycle: { preStop: {} } }),
  },
]

const PODS: Case[] = [
  { title: 'a volume without a name', object: pod({ volumes: [{ emptyDir: {} }] }) },
  {
    title: 'a volume whose name has a capital',
    object: pod({ volumes: [{ name: 'Tmp', emptyDir: {} }] }),
  },
  { title: 'a volume of nothing', object: pod({ volumes: [{ name: 'tmp' }] }) },
  {
    title: 'a volume of two sources',
    object: pod({ volumes: [{ ...secretVolume, emptyDir: {} }] }),
  },
  { title: 'two volumes of one name', object: pod({ volumes: [secretVolume, secretVolume] }) },
  {
    title: 'a volume of a Secret without a name',
    object: pod({ volumes: [{ name: 'a', secret: {} }] }),
  },
  {
    title: 'a volume of a Secret with a mode that is none',
    object: pod({ volumes: [{ name: 'a', secret: { secretName: 'a', defaultMode: 512 } }] }),
  },
  {
    title: 'a volume of a ConfigMap without a name',
    object: pod({ volumes: [{ name: 'a', configMap: {} }] }),
  },
  {
    title: 'a volume of a claim without a name',
    object: pod({ volumes: [{ name: 'a', persistentVolumeClaim: { claimName: '' } }] }),
  },
  {
    title: 'an item of a volume that leaves it',
    object: pod({
      volumes: [{ name: 'a', secret: { secretName: 'a', items: [{ key: 'a', path: '../b' }] } }],
    }),
  },
  {
    title: 'a service account whose name has a capital',
    object: pod({ serviceAccountName: 'Backup' }),
  },
  { title: 'a negative grace period', object: pod({ terminationGracePeriodSeconds: -1 }) },
  { title: 'an unknown DNS policy', object: pod({ dnsPolicy: 'Cluster' }) },
  { title: 'a node selector with a bad value', object: pod({ nodeSelector: { zone: 'a b' } }) },
  { title: 'a node selector with a bad key', object: pod({ nodeSelector: { 'a b': 'c' } }) },
  {
    title: 'a toleration of an unknown effect',
    object: pod({ tolerations: [{ key: 'a', effect: 'No' }] }),
  },
  {
    title: 'a toleration of an unknown operator',
    object: pod({ tolerations: [{ key: 'a', operator: 'Is' }] }),
  },
  {
    title: 'a toleration of existence with a value',
    object: pod({ tolerations: [{ key: 'a', operator: 'Exists', value: 'b' }] }),
  },
  {
    title: 'a toleration without a key that compares',
    object: pod({ tolerations: [{ operator: 'Equal', value: 'b' }] }),
  },
  {
    title: 'a toleration with seconds without NoExecute',
    object: pod({ tolerations: [{ key: 'a', tolerationSeconds: 5 }] }),
  },
  { title: 'a toleration of everything', object: pod({ tolerations: [{ operator: 'Exists' }] }) },
  {
    title: 'a spread without a key',
    object: pod({ topologySpreadConstraints: [{ ...spread, topologyKey: null }] }),
  },
  {
    title: 'a spread of skew 0',
    object: pod({ topologySpreadConstraints: [{ ...spread, maxSkew: 0 }] }),
  },
  {
    title: 'a spread that does something unknown',
    object: pod({ topologySpreadConstraints: [{ ...spread, whenUnsatisfiable: 'Wait' }] }),
  },
  {
    title: 'a spread without a reaction',
    object: pod({ topologySpreadConstraints: [{ ...spread, whenUnsatisfiable: null }] }),
  },
  { title: 'a spread twice', object: pod({ topologySpreadConstraints: [spread, spread] }) },
  {
    title: 'a node affinity without terms',
    object: pod({
      affinity: {
        nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [] } },
      },
    }),
  },
  {
    title: 'a node affinity with an unknown operator',
    object: pod({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchExpressions: [{ key: 'a', operator: 'Is', values: ['b'] }] },
            ],
          },
        },
      },
    }),
  },
  {
    title: 'a node affinity without values',
    object: pod({
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [{ matchExpressions: [{ key: 'a', operator: 'In' }] }],
          },
        },
      },
    }),
  },
  {
    title: 'a pod affinity without a topology',
    object: pod({
      affinity: {
        podAntiAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: [
            { labelSelector: { matchLabels: { a: 'b' } } },
          ],
        },
      },
    }),
  },
  {
    title: 'a preference of weight 0',
    object: pod({
      affinity: {
        podAntiAffinity: {
          preferredDuringSchedulingIgnoredDuringExecution: [
            { weight: 0, podAffinityTerm: { topologyKey: 'zone' } },
          ],
        },
      },
    }),
  },
  { title: 'a group of the pod below zero', object: pod({ securityContext: { fsGroup: -1 } }) },
  {
    title: 'an unknown policy of the group of volumes',
    object: pod({ securityContext: { fsGroupChangePolicy: 'Never' } }),
  },
  {
    title: 'a priority class whose name has a capital',
    object: pod({ priorityClassName: 'High' }),
  },
  { title: 'a host name that is none', object: pod({ hostname: 'a.b' }) },
  {
    title: 'a pod template with a bad annotation',
    object: job({ template: { metadata: { annotations: { 'a b': 'c' } } } }),
  },
  {
    title: 'a pod template with a bad label',
    object: job({ template: { metadata: { labels: { a: 'b c' } } } }),
  },
]

const OTHERS: Case[] = [
  { title: 'a StatefulSet', object: statefulSet({}) },
  {
    title: 'a StatefulSet whose pods are never restarted',
    object: statefulSet({ template: { spec: { restartPolicy: 'Never' } } }),
  },
  { title: 'a StatefulSet with fewer than no replicas', object: statefulSet({ replicas: -1 }) },
  { title: 'a StatefulSet without a selector', object: statefulSet({ selector: null }) },
  {
    title: 'a StatefulSet with an unknown order of pods',
    object: statefulSet({ podManagementPolicy: 'Any' }),
  },
  {
    title: 'a StatefulSet with an unknown strategy',
    object: statefulSet({ updateStrategy: { type: 'Recreate' } }),
  },
  {
    title: 'a StatefulSet with a mount of its claim',
    object: statefulSet({
      template: {
        spec: {
          containers: [
            { name: 'a', image: 'i', volumeMounts: [{ name: 'data', mountPath: '/data' }] },
          ],
        },
      },
      volumeClaimTemplates: [
        {
          metadata: { name: 'data' },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
        },
      ],
    }),
  },
  {
    title: 'a StatefulSet with an amount that is none',
    object: statefulSet({
      volumeClaimTemplates: [
        {
          metadata: { name: 'data' },
          spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: 'one' } } },
        },
      ],
    }),
  },
  { title: 'a ConfigMap with a number', object: object('ConfigMap', { data: { a: 1 } }) },
]

export const CASES: Case[] = [...STRUCTURE, ...JOBS, ...CONTAINERS, ...PODS, ...OTHERS]
