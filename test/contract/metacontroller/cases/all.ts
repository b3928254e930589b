/** Every case of the contract, in the order of the facts. */
import type { Case } from '../setting.ts'
import { ANSWERS } from './answers.ts'
import { CHILDREN } from './children.ts'
import { CLAIMING } from './claiming.ts'
import { CUSTOMIZE } from './customize.ts'
import { FAILURES } from './failures.ts'
import { FINALIZE } from './finalize.ts'
import { STATUS } from './status.ts'

export const CASES: Case[] = [
  ...ANSWERS,
  ...CUSTOMIZE,
  ...FAILURES,
  ...STATUS,
  ...CHILDREN,
  ...CLAIMING,
  ...FINALIZE,
]
