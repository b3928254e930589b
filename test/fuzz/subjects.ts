/** All that is fuzzed. */
import { answers } from './answers.ts'
import { decisions } from './decisions.ts'
import { listings } from './listings.ts'
import { manifests } from './manifests.ts'
import { reports } from './reports.ts'
import { requests } from './requests.ts'
import { specs } from './specs.ts'
import type { Subject } from './subject.ts'

/** Every subject has its own case type, which is private to it. */
export const SUBJECTS = [
  ...[specs, decisions, reports, requests, answers, manifests, listings],
] as Subject<never>[]
