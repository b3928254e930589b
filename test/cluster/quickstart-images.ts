/** Images of the quickstart that a registry has, built from the programs of this machine under their published names. */
import { fingerprint } from '../fingerprint.ts'
import { buildArchive } from './buildah.ts'
import type { Image } from './buildah.ts'
import { addBasics, addProgram } from './rootfs.ts'

/** An image that has one program, whose path is the start of its command line. */
export interface ProgramImage {
  /** With its tag, as a pod names it. */
  readonly name: string
  readonly program: string
  /** Where the published image has it. */
  readonly path: string
}

export async function buildProgramImage({ name, program, path }: ProgramImage): Promise<Image> {
  const dockerfile = `FROM scratch\nADD . /\nENTRYPOINT ["/${path}"]\n`
  return buildArchive({
    name,
    family: name.replace(/:.*/, ''),
    fingerprint: fingerprint([name, dockerfile], [program]),
    dockerfile: { text: dockerfile },
    context: async (root) => {
      await addBasics(root)
      await addProgram(root, program, path)
    },
  })
}
