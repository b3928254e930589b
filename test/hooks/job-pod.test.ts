/** Volumes that an installation adds to the pods of Jobs. */
import { readFileSync } from 'node:fs'
import t from 'tap'
import { CREDENTIALS_FOLDER } from '../../crds/contract/names.ts'
import { JOB_VOLUMES, volumesError } from '../../hooks/job-pod.ts'
import { SERVICE_ACCOUNT_FOLDER } from '../../jobs/clients/kubernetes/client.ts'

const volumes = [{ name: 'ca' }, { name: 'cache-1' }]

function mountError(mountPath: string, former: string[] = []): string | undefined {
  const paths = [...former, mountPath]
  return volumesError({ volumes, volumeMounts: paths.map((path) => mount(path)) })
}

function mount(mountPath: string, name = 'ca') {
  return { name, mountPath }
}

t.test('volumes and mounts that hide nothing of the Jobs are accepted', async (t) => {
  t.equal(volumesError({}), undefined)
  t.equal(volumesError({ volumes }), undefined)
  for (const path of [
    ...['/etc/ca', '/etc/ca/', '/etc/ssl/certs/ours.pem', '/tmpfs', '/application', '/run/vector'],
    ...['/var/run/secrets/eks.amazonaws.com/serviceaccount', '/usr/local/bin/credential-helper'],
  ])
    t.equal(mountError(path), undefined, path)
  const volumeMounts = [mount('/a'), mount('/a/b'), mount('/c', 'cache-1')]
  t.equal(volumesError({ volumes, volumeMounts }), undefined)
})

t.test(
  'the name of a volume is a DNS label, its own, and none of the Jobs themselves',
  async (t) => {
    const withNames = (...names: string[]) =>
      volumesError({ volumes: names.map((name) => ({ name })) })
    for (const name of JOB_VOLUMES) {
      t.equal(
        withNames('ca', name),
        `.volumes[1].name: "${name}" is a volume that the Jobs have already: choose another name`,
      )
    }
    for (const name of ['', 'A', 'a.b', 'a'.repeat(64)]) {
      t.equal(
        withNames(name),
        `.volumes[0].name: "${name}" must have at most 63 lower case letters, digits and "-", with a letter or digit at both ends`,
      )
    }
    t.equal(
      withNames('ca', 'b', 'ca'),
      '.volumes[2].name: "ca" is the name of another of these volumes',
    )
  },
)

t.test('a mount names one of the volumes', async (t) => {
  const volumeMounts = [mount('/a'), mount('/b', 'tmp')]
  t.equal(
    volumesError({ volumes, volumeMounts }),
    '.volumeMounts[1].name: no volume of volumes has the name "tmp"',
  )
  t.equal(
    volumesError({ volumeMounts }),
    '.volumeMounts[0].name: no volume of volumes has the name "ca"',
  )
})

t.test('a mount hides no path that the Jobs use, and is not in one', async (t) => {
  const own = ['/tmp', CREDENTIALS_FOLDER, SERVICE_ACCOUNT_FOLDER]
  const program = ['/app', '/usr/local/bin/node', '/usr/local/bin/helm']
  for (const path of [...own, ...program]) {
    for (const same of [path, `${path}/`, `${path}/inner`, `/x/..${path}`, `/${path}/.`]) {
      t.equal(
        mountError(same),
        `.volumeMounts[0].mountPath: "${same}" must not hide, or be in, ${path}, which the Jobs use`,
      )
    }
  }
  for (const [path, hidden] of [
    ['/', '/tmp'],
    ['/var', CREDENTIALS_FOLDER],
    ['/var/run', CREDENTIALS_FOLDER],
    ['/run', CREDENTIALS_FOLDER],
    ['/run/vec/engine', CREDENTIALS_FOLDER],
    ['/run/secrets', SERVICE_ACCOUNT_FOLDER],
    ['/var/run/secrets/kubernetes.io', SERVICE_ACCOUNT_FOLDER],
    ['/usr/local/bin', '/usr/local/bin/node'],
  ] as const)
    t.match(mountError(path), `must not hide, or be in, ${hidden}, which`, path)
})

t.test('the path of a mount is absolute and its own', async (t) => {
  for (const path of ['', 'etc/ca', './ca', 'C:/ca', '/etc:ca']) {
    t.equal(
      mountError(path),
      `.volumeMounts[0].mountPath: "${path}" must be an absolute path without ":"`,
    )
  }
  for (const [path, former] of [
    ['/etc/ca', '/etc/ca'],
    ['/etc/ca/', '/etc/ca'],
    ['/run/a', '/var/run/a'],
  ] as const) {
    t.equal(
      mountError(path, ['/etc', former]),
      `.volumeMounts[2].mountPath: "${path}" is the path of another of these mounts`,
    )
  }
})

t.test('the program is where the Dockerfile has it', async (t) => {
  const dockerfile = readFileSync(new URL('../../Dockerfile', import.meta.url), 'utf8')
  t.match(dockerfile, '\nWORKDIR /app\n')
  t.match(dockerfile, '/usr/bin/helm /usr/local/bin/helm\n')
})
