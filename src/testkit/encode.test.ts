import type { AbiParameter } from 'abitype'
import fc from 'fast-check'
import * as AbiParameters from 'ox/AbiParameters'
import { describe, expect, test } from 'vitest'
import { parseEvent } from '../handle/abi.ts'
import { AbiInput, layOut, readData } from '../handle/codec.ts'
import { compileDecoder } from '../handle/event.ts'
import { encodeEvent, encodeParameters } from './encode.ts'
import { testAddress } from './fake-log.ts'

type Parameter = AbiParameter & { components?: readonly Parameter[] }

/** A failing property prints its seed; FC_SEED repeats it. */
const { FC_SEED } = process.env
const runs = { numRuns: 500, ...(FC_SEED && { seed: Number(FC_SEED) }) }

interface Sample {
  readonly parameter: Parameter
  readonly value: fc.Arbitrary<unknown>
}

const hex = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => `0x${Buffer.from(bytes).toString('hex')}`)

function integer(bits: number, isSigned: boolean): fc.Arbitrary<unknown> {
  const min = isSigned ? -(2n ** BigInt(bits - 1)) : 0n
  const max = isSigned ? 2n ** BigInt(bits - 1) - 1n : 2n ** BigInt(bits) - 1n
  const whole = fc.oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max))
  return bits > 48 ? whole : whole.map(Number)
}

const bitSizes = [8, 16, 48, 56, 128, 256]

const elementary: fc.Arbitrary<Sample> = fc.oneof(
  fc.constantFrom(...bitSizes).map((bits) => ({ parameter: { type: `uint${bits}` }, value: integer(bits, false) })),
  fc.constantFrom(...bitSizes).map((bits) => ({ parameter: { type: `int${bits}` }, value: integer(bits, true) })),
  fc.integer({ min: 1, max: 32 }).map((length) => ({ parameter: { type: `bytes${length}` }, value: hex(length) })),
  fc.constant({ parameter: { type: 'address' }, value: hex(20) }),
  fc.constant({ parameter: { type: 'bool' }, value: fc.boolean() }),
  fc.constant({ parameter: { type: 'bytes' }, value: fc.integer({ min: 0, max: 70 }).chain(hex) }),
  fc.constant({ parameter: { type: 'string' }, value: fc.string({ unit: 'grapheme', maxLength: 40 }) }),
)

function arrayOf({ parameter, value }: Sample, length: number | null): Sample {
  const bounds = length === null ? { maxLength: 3 } : { minLength: length, maxLength: length }
  return {
    parameter: { ...parameter, type: `${parameter.type}[${length ?? ''}]` } as Parameter,
    value: fc.array(value, bounds),
  }
}

function tupleOf(members: readonly Sample[]): Sample {
  const components = members.map(({ parameter }, i) => ({ ...parameter, name: `m${i}` }))
  const fields = Object.fromEntries(members.map(({ value }, i) => [`m${i}`, value]))
  return { parameter: { type: 'tuple', components } as Parameter, value: fc.record(fields) }
}

function nested(depth: number): fc.Arbitrary<Sample> {
  if (depth === 0) return elementary
  const inner = nested(depth - 1)
  return fc.oneof(
    { weight: 2, arbitrary: elementary },
    { weight: 2, arbitrary: fc.tuple(inner, fc.constantFrom(null, 1, 2)).map(([one, length]) => arrayOf(one, length)) },
    { weight: 2, arbitrary: fc.array(inner, { minLength: 1, maxLength: 3 }).map(tupleOf) },
  )
}

/** Types with values of them. */
const lists = fc.array(nested(2), { minLength: 1, maxLength: 4 }).chain((samples) => {
  const parameters = samples.map(({ parameter }, i) => ({ ...parameter, name: `p${i}` }))
  return fc.tuple(fc.constant(parameters), fc.tuple(...samples.map(({ value }) => value)))
})

describe('encoding', () => {
  test('gives what the library gives, for any types and values', () => {
    fc.assert(
      fc.property(lists, ([parameters, values]) => {
        expect(encodeParameters(parameters, values)).toBe(
          AbiParameters.encode(parameters as AbiParameter[], values as never),
        )
      }),
      runs,
    )
  })

  test('is read back by the decoder that handlers depend on', () => {
    fc.assert(
      fc.property(lists, ([parameters, values]) => {
        const input = new AbiInput(encodeParameters(parameters, values))
        expect(layOut(parameters).map((member) => readData(member, input))).toEqual(values)
      }),
      runs,
    )
  })

  test('control: another value gives other data', () => {
    const one = [{ type: 'uint256' }] as const
    expect(encodeParameters(one, [5n])).not.toBe(AbiParameters.encode(one, [6n]))
  })
})

describe('an event', () => {
  const event = parseEvent(
    'Moved',
    'event Moved(address indexed from, string indexed memo, uint256 value, (uint8 kind, bytes note)[] parts)',
  )
  const args = { from: testAddress('BOB'), memo: 'rent', value: 5n, parts: [{ kind: 1, note: '0xc0ffee' }] }

  test('is read back, its indexed text as the hash', () => {
    const { topics, data } = encodeEvent(event, args)
    const read = compileDecoder(event)({ topics, data } as never) as Record<string, unknown>
    expect(read).toMatchObject({ from: args.from, value: 5n, parts: args.parts })
    expect(read.memo).toBe(topics[2])
    expect(topics).toHaveLength(event.topicCount)
  })

  test.each([
    ['a name that it has not', { ...args, vlaue: 5n }, 'there is no parameter vlaue'],
    ['a missing argument', { from: args.from, memo: 'rent', parts: [] }, 'there is no value for uint256'],
    ['a value of another type', { ...args, value: 'five' }, 'a value of type string is given for uint256'],
    ['an address that is too short', { ...args, from: '0x01' }, 'a value of type string is given for address from'],
    ['a list that is too short', [args.from], '4 values are needed, got 1'],
  ])('with %s is refused', (_what, given, words) => {
    expect(() => encodeEvent(event, given)).toThrow(words)
  })
})
