import t from 'tap'
import { parseOptions, USAGE } from '../../metacontroller/options.ts'
import { matchWhole } from '../match-whole.ts'

const inCluster = { KUBERNETES_SERVICE_HOST: '10.96.0.1', HOOK_TOKEN_FILE: '/token' }

t.test('a pod of the chart is set up by its environment', async (t) => {
  const options = parseOptions([], { ...inCluster, IMAGE: 'registry/vec-operator:0.1.0' }, '0.1.0')
  t.strictSame(options, {
    port: 8080,
    host: '0.0.0.0',
    tokenFile: '/token',
    insecureHooks: false,
    engineRoute: 'direct',
    purgeRules: { allowHttp: true, denied: ['10.96.0.1/32'] },
    settings: {
      clusterDomain: 'cluster.local',
      version: '0.1.0',
      logLevel: 'INFO',
      logFormat: 'json',
      namespaces: [],
      crossNamespace: 'open',
      jobKeys: [],
      image: 'registry/vec-operator:0.1.0',
      imagePullPolicy: 'IfNotPresent',
      imagePullSecrets: [],
      chart: { name: 'qdrant', repository: 'https://qdrant.github.io/qdrant-helm' },
      stepVersions: [],
      maxHelmJobs: 10,
      historySeconds: 86_400,
      jobResources: {
        helm: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '256Mi' } },
        data: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '512Mi' } },
      },
      jobPods: { helm: {}, data: {} },
    },
  })
})

t.test('every variable and every argument has its effect', async (t) => {
  const amounts = { requests: { cpu: '1' }, limits: {} }
  const restricted = { podSecurityContext: { runAsNonRoot: true }, securityContext: {} }
  const withCa = {
    volumes: [{ name: 'ca', configMap: { name: 'ca' } }],
    volumeMounts: [{ name: 'ca', mountPath: '/etc/ca', readOnly: true }],
  }
  const options = parseOptions(
    [
      ...['--namespace', 'a', '--namespace', 'b', '--host', '::', '--log-level', 'DEBUG'],
      ...['--cross-namespace', 'closed'],
    ],
    {
      ...inCluster,
      PORT: '9000',
      LOG_LEVEL: 'ERROR',
      LOG_FORMAT: 'text',
      TLS_CERT_FILE: '/tls.crt',
      TLS_KEY_FILE: '/tls.key',
      IMAGE_PULL_POLICY: 'Never',
      IMAGE_PULL_SECRETS: 'registry,mirror',
      POD_NAMESPACE: 'vec-system',
      CLUSTER_DOMAIN: 'k8s.example',
      ENGINE_CHART_NAME: 'mirror',
      ENGINE_CHART_REPOSITORY: 'http://charts.example',
      ENGINE_CHART_PULL_SECRET: 'charts',
      ENGINE_CHART_CREDENTIALS_SECRET: 'basic-auth',
      ENGINE_CHART_CA: 'PEM',
      ENGINE_STEP_VERSIONS: '1.17.0,1.18.2',
      ENGINE_ROUTE: 'proxy',
      MAX_HELM_JOBS: '3',
      JOB_HISTORY_SECONDS: '60',
      JOB_RESOURCES: JSON.stringify({ helm: amounts, data: amounts }),
      JOB_PODS: JSON.stringify({
        helm: restricted,
        data: { nodeSelector: { pool: 'batch' }, env: [{ name: 'A' }], ...withCa },
      }),
    },
    '0.1.0',
  )
  matchWhole(t, options, {
    port: 9000,
    host: '::',
    tls: { certFile: '/tls.crt', keyFile: '/tls.key' },
    ownNamespace: 'vec-system',
    engineRoute: 'proxy',
    settings: {
      clusterDomain: 'k8s.example',
      namespaces: ['a', 'b'],
      crossNamespace: 'closed',
      logLevel: 'DEBUG',
      logFormat: 'text',
      imagePullPolicy: 'Never',
      imagePullSecrets: ['registry', 'mirror'],
      chart: {
        name: 'mirror',
        repository: 'http://charts.example',
        pullSecret: 'charts',
        credentialsSecret: 'basic-auth',
        caBundle: 'PEM',
      },
      stepVersions: ['1.17.0', '1.18.2'],
      maxHelmJobs: 3,
      historySeconds: 60,
      jobResources: { helm: amounts, data: amounts },
      jobPods: {
        helm: restricted,
        data: { nodeSelector: { pool: 'batch' }, env: [{ name: 'A' }], ...withCa },
      },
    },
  })
})

t.test('outside the cluster pods are reached through the API server', async (t) => {
  const options = parseOptions(
    ['--insecure-hooks', '--port', '0'],
    { KUBECONFIG: '/home/me/.kube/config' },
    '0.1.0',
  )
  t.match(options, {
    kubeconfig: '/home/me/.kube/config',
    port: 0,
    insecureHooks: true,
    engineRoute: 'proxy',
    settings: { image: 'ghcr.io/vec-operator/vec-operator:0.1.0' },
  })
})

t.test('KUBECONFIG is used when no service account is mounted, --kubeconfig always', async (t) => {
  const env = { ...inCluster, KUBECONFIG: '/config' }
  t.equal(parseOptions([], env, '0.1.0')?.kubeconfig, undefined)
  t.match(parseOptions(['--kubeconfig', '/mine'], env, '0.1.0'), {
    kubeconfig: '/mine',
    engineRoute: 'proxy',
  })
})

for (const [what, args, env, message] of [
  [
    'no token file',
    [],
    { HOOK_TOKEN_FILE: undefined },
    /^neither HOOK_SECRET nor HOOK_TOKEN_FILE is set/,
  ],
  ['a port that is a word', ['--port', 'http'], {}, /^PORT: "http" is not a whole number/],
  ['a port too high', [], { PORT: '65536' }, /^PORT: "65536"/],
  [
    'a lower-case level',
    [],
    { LOG_LEVEL: 'debug' },
    /^LOG_LEVEL: "debug" is not one of DEBUG, INFO/,
  ],
  ...['', 'a/b', 'A', 'a.b', 'a '].map(
    (name) =>
      [
        `the namespace "${name}"`,
        ['--namespace', 'ns', `--namespace=${name}`],
        {},
        `--namespace: "${name}" is not the name of a namespace`,
      ] as const,
  ),
  ['an unknown rule', [], { CROSS_NAMESPACE: 'half' }, /^CROSS_NAMESPACE: "half" is not one of/],
  ['an unknown format', [], { LOG_FORMAT: 'xml' }, /^LOG_FORMAT: "xml" is not one of json, text/],
  ['half a certificate', [], { TLS_KEY_FILE: '/k' }, /^TLS_CERT_FILE and TLS_KEY_FILE need/],
  ['resources that are no JSON', [], { JOB_RESOURCES: '{' }, /^JOB_RESOURCES is not JSON/],
  ['resources of one kind', [], { JOB_RESOURCES: '{"helm":{}}' }, /^JOB_RESOURCES\.data: /],
  ['pods that are no JSON', [], { JOB_PODS: '{' }, /^JOB_PODS is not JSON/],
  [
    'a pod with a wrong field',
    [],
    { JOB_PODS: '{"helm":{"tolerations":{}}}' },
    /^JOB_PODS\.helm\.tolerations: /,
  ],
  [
    'a security context that is none',
    [],
    { JOB_PODS: '{"data":{"podSecurityContext":"none"}}' },
    /^JOB_PODS\.data\.podSecurityContext: /,
  ],
  [
    'a volume of the Jobs themselves',
    [],
    { JOB_PODS: '{"helm":{"volumes":[{"name":"tmp"}]}}' },
    'JOB_PODS.helm.volumes[0].name: "tmp" is a volume that the Jobs have already: choose another name',
  ],
  [
    'a mount of no volume',
    [],
    { JOB_PODS: '{"data":{"volumeMounts":[{"name":"ca","mountPath":"/etc/ca"}]}}' },
    'JOB_PODS.data.volumeMounts[0].name: no volume of volumes has the name "ca"',
  ],
  [
    'a mount without a path',
    [],
    { JOB_PODS: '{"data":{"volumeMounts":[{"name":"ca"}]}}' },
    /^JOB_PODS\.data\.volumeMounts\.0\.mountPath: /,
  ],
  [
    'pull Secrets of no namespace',
    [],
    { IMAGE_PULL_SECRETS: 'a' },
    /^IMAGE_PULL_SECRETS needs POD_/,
  ],
  [
    'a pull Secret of the chart of no namespace',
    [],
    { ENGINE_CHART_PULL_SECRET: 'a' },
    /^ENGINE_CHART_PULL_SECRET needs POD_/,
  ],
  [
    'credentials of the chart of no namespace',
    [],
    { ENGINE_CHART_CREDENTIALS_SECRET: 'a' },
    /^ENGINE_CHART_CREDENTIALS_SECRET needs POD_/,
  ],
  [
    'credentials by HTTP for a registry',
    [],
    {
      ENGINE_CHART_CREDENTIALS_SECRET: 'a',
      POD_NAMESPACE: 'ns',
      ENGINE_CHART_REPOSITORY: 'oci://registry.example/charts',
    },
    'ENGINE_CHART_CREDENTIALS_SECRET is for an http:// or https:// ENGINE_CHART_REPOSITORY; an oci:// registry needs ENGINE_CHART_PULL_SECRET',
  ],
  ['a Secret without namespace', [], { HOOK_SECRET: 'a' }, /^HOOK_SECRET: "a" is not/],
  ['a Secret without hosts', [], { HOOK_SECRET: 'ns/a' }, /^HOOK_SECRET needs HOOK_HOSTS/],
  [
    'a step that is no version',
    [],
    { ENGINE_STEP_VERSIONS: '1.17.1,v1.18' },
    /^ENGINE_STEP_VERSIONS: "v1.18" is not a version such as 1.17.1$/,
  ],
  [
    'two steps of one minor version',
    [],
    { ENGINE_STEP_VERSIONS: '1.17.0,1.18.2,1.17.1' },
    /^ENGINE_STEP_VERSIONS: 1.17.0 and 1.17.1 have the same minor version: name one of them$/,
  ],
  ...[
    ...['', 'cluster.local.', '.local', 'cluster..local', 'Cluster.local', '-a.local', 'a-.local'],
    ...['cluster.local:53', `a.${'b'.repeat(65)}`, `${'a.'.repeat(33)}b`],
  ].map(
    (domain) =>
      [
        `the DNS domain "${domain}"`,
        [],
        { CLUSTER_DOMAIN: domain },
        `CLUSTER_DOMAIN: "${domain}" is not a DNS domain such as cluster.local, without a dot at its end`,
      ] as const,
  ),
  ['an unknown argument', ['--nonsense'], {}, /--nonsense/],
] as const) {
  t.test(`${what} is rejected by name`, async (t) => {
    t.throws(() => parseOptions([...args], { ...inCluster, ...env }, '0.1.0'), { message })
  })
}

t.test('a DNS domain has labels of up to 63 characters, 66 in all', async (t) => {
  for (const domain of ['k8s', 'a-1.b2', `${'a'.repeat(63)}.bc`, `${'a.'.repeat(32)}bc`]) {
    const options = parseOptions([], { ...inCluster, CLUSTER_DOMAIN: domain }, '0.1.0')
    t.equal(options?.settings.clusterDomain, domain)
  }
})

t.test('--help asks for the usage, which names every argument', async (t) => {
  t.equal(parseOptions(['--help'], {}, '0.1.0'), undefined)
  for (const flag of ['--namespace', '--kubeconfig', '--insecure-hooks', 'HOOK_TOKEN_FILE']) {
    t.match(USAGE, flag)
  }
})

t.test('one of several replicas is named by LEADER_SERVICE and by its pod', async (t) => {
  const pod = { POD_NAME: 'vec-operator-a1', POD_UID: 'uid', POD_IP: '10.0.0.1' }
  const env = {
    HOOK_TOKEN_FILE: '/token',
    LEADER_SERVICE: 'vec-system/vec-operator-leader',
    ...pod,
  }
  t.strictSame(parseOptions(['--port', '8443'], env, '0.1.0')?.leader, {
    service: { namespace: 'vec-system', name: 'vec-operator-leader' },
    replica: {
      pod: { name: 'vec-operator-a1', uid: 'uid' },
      ...{ address: '10.0.0.1', port: 8443 },
    },
  })
  const { LEADER_SERVICE: _, ...alone } = env
  t.equal(parseOptions([], alone, '0.1.0')?.leader, undefined)
  for (const name of Object.keys(pod)) {
    t.throws(() => parseOptions([], { ...env, [name]: undefined }, '0.1.0'), {
      message: 'LEADER_SERVICE needs POD_NAME, POD_UID and POD_IP, an address',
    })
  }
  for (const text of ['leader', '/leader', 'vec-system/', 'a/b/c']) {
    t.throws(() => parseOptions([], { ...env, LEADER_SERVICE: text }, '0.1.0'), {
      message: `LEADER_SERVICE: "${text}" is not <namespace>/<name>`,
    })
  }
})
