/** The simulated machine of the fault suite, with all that is loaded once and takes real time. */
import { existsSync, readFileSync } from 'node:fs'
import { helm } from '../doubles/helm/command-line.ts'
import { ApiClient } from '../world/client.ts'
import { installMachine, type Machine } from './machine/machine.ts'
import type { Program } from './machine/programs.ts'

/** Files of pods, in memory where the machine offers that. */
const MEMORY = '/dev/shm'

export async function openMachine(): Promise<Machine> {
  if (existsSync(MEMORY)) process.env['TMPDIR'] = MEMORY
  // What is first imported in the middle of a run comes from the disk, whenever that answers.
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
