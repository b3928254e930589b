/** What an attack on the service is: the tests look at its effect, the bench at healthy requests meanwhile. */
import type { Ground } from './ground.ts'

export interface Attack {
  title: string
  /** It has its effect as long as it lasts; others are over when they have begun. */
  lasts?: boolean
  /** Resolves when all was sent and, where the service decides, had its effect. */
  begin: (ground: Ground) => Promise<Effect>
}

export interface Effect {
  /** What the service did that it must not. */
  problems: string[]
  /** Resolves when nothing of the attack is left. */
  end?: () => Promise<void>
}
