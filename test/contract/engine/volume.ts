/**
 * A volume of so many bytes, for engines whose disk is to be full: ext4 in a file, where this machine
 * lets us mount it. On a tmpfs the engine would die: it has files with holes, and touches them.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statfsSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const MIB = 1024 * 1024

export interface Volume {
  folder: string
  /** Leaves this many bytes free. */
  fill(bytesLeft?: number): void
  empty(): void
  close(): void
}

/** Undefined where mounting is not allowed. */
export function smallVolume(mebibytes: number): Volume | undefined {
  const home = mkdtempSync(join(tmpdir(), 'vec-volume-'))
  const [image, folder] = [join(home, 'image'), join(home, 'mounted')]
  const remove = () => {
    rmSync(home, { recursive: true })
  }
  try {
    mkdirSync(folder)
    writeFileSync(image, '')
    truncateSync(image, mebibytes * MIB)
    execFileSync('mkfs.ext4', ['-q', '-F', '-m', '0', image], { stdio: 'ignore' })
    execFileSync('mount', ['-o', 'loop', image, folder], { stdio: 'ignore' })
  } catch {
    remove()
    return undefined
  }
  const ballast = join(folder, 'ballast')
  return {
    folder,
    fill(bytesLeft = 0) {
      const { bavail, bsize } = statfsSync(folder)
      for (let left = bavail * bsize - bytesLeft; left > 0; left -= MIB) {
        if (!appended(ballast, Math.min(left, MIB))) return
      }
    },
    empty: () => {
      rmSync(ballast, { force: true })
    },
    close: () => {
      execFileSync('umount', ['--lazy', folder])
      remove()
    },
  }
}

/** False once the volume is full. */
function appended(file: string, bytes: number): boolean {
  try {
    writeFileSync(file, Buffer.alloc(bytes), { flag: 'a' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    return false
  }
}
