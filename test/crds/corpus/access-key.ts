/** Corpus of VecAccessKey: its admission rules and the sizes of its lists. */
import { pairCases, type Fields } from './case.ts'

export const SMALLEST_ACCESS_KEY: Fields = { clusterRef: { name: 'main' }, access: 'r' }

function collections(count: number): Fields[] {
  return Array.from({ length: count }, (_, index) => ({ name: `c-${index}`, access: 'rw' }))
}

function matching(...values: unknown[]): Fields {
  return {
    valueExists: {
      collection: 'users',
      matches: values.map((value, index) => ({ key: `k-${index}`, value })),
    },
  }
}

const only = (count: number): Fields => ({ access: undefined, collections: collections(count) })
const scalarsOnly = 'spec.valueExists.matches[0].value'

export const ACCESS_KEY_CASES = pairCases('VecAccessKey', SMALLEST_ACCESS_KEY, [
  {
    title: 'exactly one of access and collections',
    accepted: only(1),
    refused: { collections: collections(1) },
    field: 'spec',
    because: 'exactly one of spec.access and spec.collections is required',
  },
  {
    title: 'one of access and collections is there',
    accepted: { access: 'm' },
    refused: { access: undefined },
    field: 'spec',
    because: 'exactly one of spec.access and spec.collections is required',
  },
  {
    title: 'an empty list of collections is no access',
    accepted: only(2),
    refused: only(0),
    field: 'spec.collections',
    because: 'should have at least 1 items',
  },
  {
    title: 'collections are keyed by name',
    accepted: only(3),
    refused: { access: undefined, collections: [...collections(1), ...collections(1)] },
    field: 'spec.collections[1]',
    because: 'Duplicate value',
  },
  {
    title: 'collections has up to 256 entries',
    accepted: only(256),
    refused: only(257),
    field: 'spec.collections',
    because: 'must have at most 256 items',
  },
  {
    title: 'renewBefore needs ttl',
    accepted: { ttl: '720h', renewBefore: '24h' },
    refused: { renewBefore: '24h' },
    field: 'spec',
    because: 'spec.renewBefore requires spec.ttl',
  },
  {
    title: 'renewBefore is less than ttl',
    accepted: { ttl: '1h30m', renewBefore: '89m59s' },
    refused: { ttl: '1h30m', renewBefore: '90m' },
    field: 'spec',
    because: 'spec.renewBefore must be less than spec.ttl',
  },
  {
    title: 'renewBefore is not zero',
    accepted: { ttl: '1h', renewBefore: '1s' },
    refused: { ttl: '1h', renewBefore: '0s' },
    field: 'spec.renewBefore',
    because: 'spec.renewBefore must be greater than 0s',
  },
  {
    title: 'renewBefore of several zeros is zero',
    accepted: { ttl: '1h', renewBefore: '0h1m' },
    refused: { ttl: '1h', renewBefore: '0h0m0s' },
    field: 'spec.renewBefore',
    because: 'spec.renewBefore must be greater than 0s',
  },
  {
    title: 'ttl is a duration such as 720h or 1h30m',
    accepted: { ttl: '1h30m' },
    refused: { ttl: '30 days' },
    field: 'spec.ttl',
    because: 'should match',
  },
  {
    title: 'ttl is at least a minute',
    accepted: { ttl: '60s' },
    refused: { ttl: '59s' },
    field: 'spec.ttl',
    because: 'spec.ttl must be at least 1m',
  },
  {
    title: 'ttl has no upper limit but its digits, and is not zero',
    accepted: { ttl: '999999h9999999m99999999s' },
    refused: { ttl: '0h' },
    field: 'spec.ttl',
    because: 'spec.ttl must be at least 1m',
  },
  {
    title: 'clusterRef cannot change',
    from: {},
    accepted: { access: 'm' },
    refused: { clusterRef: { name: 'other' } },
    field: 'spec.clusterRef',
    because: 'spec.clusterRef is immutable',
  },
  {
    title: 'secretName cannot change',
    from: { secretName: 'token' },
    accepted: { secretName: 'token', subject: 'reader' },
    refused: { secretName: 'other' },
    field: 'spec',
    because: 'spec.secretName is immutable',
  },
  {
    title: 'secretName cannot be set later',
    from: {},
    accepted: { ttl: '720h' },
    refused: { secretName: 'other' },
    field: 'spec',
    because: 'spec.secretName is immutable',
  },
  {
    title: 'valueExists.matches has at most 32 pairs',
    accepted: matching(...Array<string>(32).fill('x')),
    refused: matching(...Array<string>(33).fill('x')),
    field: 'spec.valueExists.matches',
    because: 'must have at most 32 items',
  },
  {
    title: 'valueExists.matches has at least one pair',
    accepted: matching('x'),
    refused: matching(),
    field: 'spec.valueExists.matches',
    because: 'should have at least 1 items',
  },
  {
    title: 'a value is a string, an integer or a boolean, not a fraction',
    accepted: matching('x', 7, -1, true, false, ''),
    refused: matching(1.5),
    field: scalarsOnly,
    because: 'should be a multiple of 1',
  },
  {
    title: 'a value is no list',
    accepted: matching('1'),
    refused: matching([1]),
    field: scalarsOnly,
    because: 'must have at most 0 items',
  },
  {
    title: 'a value is no empty list',
    accepted: matching('2'),
    refused: matching([]),
    because: `"${scalarsOnly}" must not validate the schema (not)`,
  },
  {
    title: 'a value is no map',
    accepted: matching('3'),
    refused: matching({ a: 1 }),
    field: scalarsOnly,
    because: 'must have at most 0 items',
  },
  {
    title: 'a value is no empty map',
    accepted: matching('4'),
    refused: matching({}),
    because: `"${scalarsOnly}" must not validate the schema (not)`,
  },
])
