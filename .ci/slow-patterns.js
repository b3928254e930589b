// A lint rule against regular expressions that take more than linear time: text from engines, stores and tenants
// must not be able to stop the service. It knows three forms; test/fuzz/patterns.ts measures the others.
// eslint-plugin-regexp (3.3.3, no-super-linear-backtracking and no-super-linear-move) does not replace it: it misses
// / \(.*\)$/, which was in the sources, and /^(\w|\d)+$/, and reads no patterns of schemas.
import { RegExpParser } from '@eslint-community/regexpp'

/** Stand for all characters: sets of a pattern are compared by them. */
const SAMPLES = [
  ...Array.from({ length: 95 }, (_, at) => String.fromCodePoint(32 + at)),
  ...['\t', '\n', '\r', '\u0000', '\u00a0', '\u2028', 'é', 'Ω'],
]

/** Why a pattern may be slow; undefined if it has none of the known forms. */
export function slowForm(source, flags = '') {
  const isUnicode = flags.includes('u') || flags.includes('v')
  const ast = new RegExpParser().parsePattern(source, 0, source.length, isUnicode)
  const context = { flags: flags.replaceAll(/[gyd]/g, ''), isSticky: flags.includes('y') }
  return ast.alternatives
    .map(({ elements }) => slowSequence(elements, context, true))
    .find((form) => form !== undefined)
}

/** `isWhole`: the sequence is a whole pattern, so that a search begins it at every character. */
function slowSequence(elements, context, isWhole) {
  for (const [at, element] of elements.entries()) {
    const inner = slowInside(element, context)
    if (inner !== undefined) return inner
    if (!isUnbounded(element)) continue
    const rest = elements.slice(at + 1)
    if (rest.every((after) => isOptional(after))) continue
    if (isWhole && restarts(elements.slice(0, at), element, context)) {
      return `a search begins ${element.raw} again at every character that it matches: anchor the pattern with ^, or exclude its first character`
    }
    const second = splits(element, rest, context)
    if (second !== undefined)
      return `${element.raw} and ${second.raw} match the same characters: make them exclude each other`
  }
  return undefined
}

function slowInside(element, context) {
  const node = element.type === 'Quantifier' ? element.element : element
  const alternatives = node.alternatives ?? []
  if (isUnbounded(element)) {
    const nested = alternatives.some(({ elements }) =>
      elements.some(
        (inner, at) =>
          isUnbounded(inner) &&
          elements.slice(at + 1).every((after) => isOptional(after)) &&
          overlap(allChars(inner, context), firstChars(node, context)),
      ),
    )
    const isAmbiguous = alternatives.some(({ elements: [one], elements }, at) =>
      alternatives
        .slice(at + 1)
        .some(
          ({ elements: [other], elements: others }) =>
            elements.length === 1 &&
            others.length === 1 &&
            isSingle(one) &&
            isSingle(other) &&
            overlap(allChars(one, context), allChars(other, context)),
        ),
    )
    if (nested || isAmbiguous) return `${element.raw} matches one text in many ways`
  }
  return alternatives
    .map(({ elements }) => slowSequence(elements, context, false))
    .find((form) => form !== undefined)
}

/** Whether a search that fails after the quantifier begins again within what it has matched. */
function restarts(before, quantifier, context) {
  if (context.isSticky) return false
  const chars = allChars(quantifier, context)
  return before.every((element) => {
    if (element.type !== 'Assertion')
      return isOptional(element) || overlap(allChars(element, context), chars)
    // ^ is at one place, \b at the ends of words; a lookbehind is a character before.
    if (element.kind === 'start') return context.flags.includes('m') && chars.has('\n')
    if (element.kind === 'word') return false
    return element.kind !== 'lookbehind' || overlap(lastChars(element, context), chars)
  })
}

/** A later quantifier that can take over characters of this one, if something has to follow it. */
function splits(quantifier, rest, context) {
  const chars = allChars(quantifier, context)
  for (const [at, element] of rest.entries()) {
    const isShared = overlap(chars, firstChars(element, context))
    if (isUnbounded(element) && isShared)
      return rest.slice(at + 1).every((after) => isOptional(after)) ? undefined : element
    if (!isOptional(element) && !isShared) return undefined
  }
  return undefined
}

function isUnbounded({ type, max }) {
  return type === 'Quantifier' && max === Infinity
}

/** Whether it can match nothing, and so cannot fail. */
function isOptional(element) {
  if (element.type === 'Quantifier') return element.min === 0 || isOptional(element.element)
  if (element.type === 'Assertion') return false
  return (
    element.alternatives?.some(({ elements }) => elements.every((inner) => isOptional(inner))) ??
    false
  )
}

function isSingle({ type } = {}) {
  return ['Character', 'CharacterSet', 'CharacterClass'].includes(type)
}

function allChars(element, context) {
  if (element.type === 'Quantifier') return allChars(element.element, context)
  if (isSingle(element)) return samplesOf(element, context)
  const inner = (element.alternatives ?? []).flatMap(({ elements }) => elements)
  return new Set(inner.flatMap((one) => [...allChars(one, context)]))
}

function firstChars(element, context) {
  if (element.type === 'Quantifier') return firstChars(element.element, context)
  if (isSingle(element)) return samplesOf(element, context)
  return new Set(
    (element.alternatives ?? []).flatMap(({ elements }) => {
      const end = elements.findIndex((one) => one.type !== 'Assertion' && !isOptional(one))
      const first = end === -1 ? elements : elements.slice(0, end + 1)
      return first.flatMap((one) => [...firstChars(one, context)])
    }),
  )
}

function lastChars({ alternatives }, context) {
  const last = alternatives.flatMap(({ elements }) => elements.slice(-1))
  return new Set(last.flatMap((one) => [...allChars(one, context)]))
}

function samplesOf({ raw }, { flags }) {
  const pattern = new RegExp(`^(?:${raw})$`, flags)
  return new Set(SAMPLES.filter((sample) => pattern.test(sample)))
}

function overlap(a, b) {
  return [...a].some((char) => b.has(char))
}

export const noSlowPatterns = {
  meta: {
    type: 'problem',
    schema: [],
    messages: { slow: '/{{source}}/ may take more than linear time: {{form}}.' },
  },
  create(context) {
    const check = (node, source, flags) => {
      const form = slowForm(source, flags)
      if (form !== undefined) context.report({ node, messageId: 'slow', data: { source, form } })
    }
    const checkText = (node) => {
      if (node?.type === 'Literal' && typeof node.value === 'string') check(node, node.value)
    }
    return {
      'Literal[regex]': (node) => check(node, node.regex.pattern, node.regex.flags),
      // The patterns of schemas, which are compiled as they stand.
      'Property[key.name="pattern"]': ({ value }) => checkText(value),
      'VariableDeclarator[id.name=/PATTERN$|^IMAGE_REPOSITORY$/]': ({ init }) => checkText(init),
      'NewExpression[callee.name="RegExp"]': ({ arguments: [source] }) => checkText(source),
    }
  },
}
