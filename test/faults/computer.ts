/** The simulated machine of the fault suite, with the modules that take real time to load. */
import { existsSync, readFileSync } from 'node:fs'
import { helm } from '../doubles/helm/command-line.ts'
import { ApiClient } from '../world/client.ts'
import { installMachine, type Machine } from './machine/machine.ts'
import type { Program } from './machine/programs.ts'

/** The files of pods are in memory if the machine supports it. */
const MEMORY = '/dev/shm'

export async function openMachine(): Promise<Machine> {
  if (existsSync(MEMORY)) process.env['TMPDIR'] = MEMORY
  // A module that is first imported during a run is read from disk, which takes an unpredictable time.
  await Promise.all([
    import('../../jobs/clients/s3/bucket.ts'),
    import('../../jobs/clients/s3/credentials.ts'),
    import('../../jobs/clients/kubernetes/kubeconfig.ts'),
  ])
  return installMachine({ helm: helmProgram })
}

const helmProgram: Program = ({ args, env, input }) => {
  const { VEC_API_SERVER = '', VEC_API_TOKEN_FILE = '' } = env
  const token = readFileSync(VEC_API_TOKEN_FILE, 'utf8')
  return helm(args, new ApiClient({ server: VEC_API_SERVER, token }), input)
}
