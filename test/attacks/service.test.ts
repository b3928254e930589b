/** Whatever is tried on the hook service, a healthy hook is answered and its memory stays below that of its pod. */
import t from 'tap'
import { startGround } from './ground.ts'
import { Patient, showAttacks } from './patient.ts'
import { SERVICE_ATTACKS } from './service-attacks.ts'

const ground = await startGround(t.testdir({}))
const patient = new Patient(ground)
t.teardown(async () => {
  await patient.stop()
  await ground.close()
})

showAttacks(t, SERVICE_ATTACKS, ground, patient)
