/**
 * Installations that our chart must refuse, tried with the real helm against an API server in memory
 * that looks as the cluster of each case does. Nothing is installed: helm renders and asks (dry run).
 */
import { CHART, said } from './helm.ts'
import { QUICK, startTarget, WEBHOOK, withWebhook } from './target.ts'

interface Installation {
  name: string
  /** Fields that the schema of a CompositeController's webhook has; undefined: there is no such CRD. */
  webhook: string[] | undefined
  /** Image of Metacontroller, where it runs as its own chart has it. */
  image?: string
  values?: string[]
  /** Part of what helm says; undefined: it has nothing against it. */
  failure: string | undefined
}

export const METACONTROLLER_IMAGE = 'ghcr.io/metacontroller/metacontroller'

const INSTALLATIONS: readonly Installation[] = [
  {
    name: 'without Metacontroller',
    webhook: undefined,
    failure: 'Metacontroller is not installed',
  },
  {
    name: 'without Metacontroller, as the values ask',
    webhook: undefined,
    values: ['--set', 'metacontroller.check=false', '--set-json', 'kinds=[]'],
    failure: undefined,
  },
  {
    name: 'with a CRD of an old Metacontroller',
    webhook: ['url', 'timeout'],
    failure:
      'older than 4.17.2: it does not know webhook.authorization, webhook.caBundle, webhook.responseUnMarshallMode',
  },
  {
    name: 'with an old Metacontroller under new CRDs',
    webhook: WEBHOOK,
    image: `${METACONTROLLER_IMAGE}:v4.17.1`,
    failure: 'metacontroller/metacontroller runs Metacontroller 4.17.1, which is older than 4.17.2',
  },
  {
    name: 'with the oldest Metacontroller that does',
    webhook: WEBHOOK,
    image: `${METACONTROLLER_IMAGE}:v4.17.2`,
    failure: undefined,
  },
  { name: 'with a Metacontroller that cannot be read', webhook: WEBHOOK, failure: undefined },
  {
    name: 'with schedules, but no hooks for their backups',
    webhook: WEBHOOK,
    values: ['--set-json', 'kinds=["vecclusters","vecbackupschedules"]'],
    failure: 'kinds: vecbackupschedules needs vecbackups',
  },
  {
    name: 'with backups, but no schedules',
    webhook: WEBHOOK,
    values: ['--set-json', 'kinds=["vecclusters","vecbackups"]'],
    failure: undefined,
  },
]

/** A line for each case in which helm did something else. */
export async function requirementProblems(helm: string): Promise<string[]> {
  const problems: string[] = []
  for (const installation of INSTALLATIONS) {
    const { name, failure } = installation
    const words = await tryInstallation(helm, installation)
    const fine = failure === undefined ? words === '' : words.includes(failure)
    if (!fine) problems.push(`${name}: ${words === '' ? 'accepted' : words}`)
  }
  return problems
}

/** What helm says against it; empty when it would install. */
async function tryInstallation(helm: string, { webhook, image, values = [] }: Installation) {
  const target = await startTarget(helm)
  try {
    if (webhook !== undefined) await target.client.create(withWebhook(webhook))
    if (image !== undefined) await target.client.create(statefulSet(image))
    const install = ['install', 'v', CHART, '--dry-run=server', ...QUICK, ...values]
    return await target.helm(install).then(() => '', said)
  } finally {
    await target.close()
  }
}

function statefulSet(image: string) {
  const containers = [{ name: 'metacontroller', image }]
  return {
    apiVersion: 'apps/v1',
    kind: 'StatefulSet',
    metadata: { name: 'metacontroller', namespace: 'metacontroller' },
    spec: {
      selector: { matchLabels: { app: 'metacontroller' } },
      template: { metadata: { labels: { app: 'metacontroller' } }, spec: { containers } },
    },
  }
}
