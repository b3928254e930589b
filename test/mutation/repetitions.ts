/** Time limit of a test in ticks of this process, which do not pass while the process is stopped. */

const LOOK_MS = 1_000

/** Whether the work ends before so many looks, a second apart, have found it unfinished. */
export async function endsWithin(looks: number, work: Promise<void>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined
  const limit = new Promise<boolean>((resolve) => {
    let left = looks
    timer = setInterval(() => {
      left -= 1
      if (left === 0) resolve(false)
    }, LOOK_MS)
  })
  const isOver = await Promise.race([work.then(() => true), limit])
  clearInterval(timer)
  return isOver
}
