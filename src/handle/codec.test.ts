import type { AbiParameter } from 'abitype'
import fc from 'fast-check'
import * as AbiParameters from 'ox/AbiParameters'
import { describe, expect, test } from 'vitest'
import { AbiInput, layOut, MalformedLog, readData } from './codec.ts'

type Parameter = AbiParameter & { components?: readonly Parameter[] }

/** A failing property prints its seed; FC_SEED repeats it. */
const { FC_SEED } = process.env
const runs = { numRuns: 1_000, ...(FC_SEED && { seed: Number(FC_SEED) }) }

function decode(parameters: readonly AbiParameter[], data: string): unknown[] {
  const input = new AbiInput(data)
  return layOut(parameters).map((member) => readData(member, input))
}

function decodeOne(type: string, data: string): unknown {
  return decode([{ type }], data)[0]
}

/** 32 bytes of hex without `0x`. */
function word(value: number | bigint): string {
  return BigInt.asUintN(256, BigInt(value)).toString(16).padStart(64, '0')
}

// ------------------------------------------------------------------------------------ any type, and a value of it

interface Sample {
  readonly parameter: Parameter
  readonly value: fc.Arbitrary<unknown>
}

const hex = (length: number) =>
  fc.uint8Array({ minLength: length, maxLength: length }).map((bytes) => `0x${Buffer.from(bytes).toString('hex')}`)

function integer(bits: number, isSigned: boolean): fc.Arbitrary<unknown> {
  const min = isSigned ? -(2n ** BigInt(bits - 1)) : 0n
  const max = isSigned ? 2n ** BigInt(bits - 1) - 1n : 2n ** BigInt(bits) - 1n
  const wide = fc.oneof(fc.bigInt({ min, max }), fc.constantFrom(min, max))
  return bits > 48 ? wide : wide.map(Number)
}

const bitSizes = Array.from({ length: 32 }, (_, i) => 8 * (i + 1))

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
  const type = `${parameter.type}[${length ?? ''}]`
  const bounds = length === null ? { maxLength: 3 } : { minLength: length, maxLength: length }
  return { parameter: { ...parameter, type } as Parameter, value: fc.array(value, bounds) }
}

function tupleOf(samples: readonly Sample[], named: boolean): Sample {
  const components = samples.map(({ parameter }, i) => ({
    ...parameter,
    ...(named && { name: `field${i}` }),
  })) as Parameter[]
  const values = fc.tuple(...samples.map(({ value }) => value))
  const value = named ? values.map((all) => Object.fromEntries(all.map((one, i) => [`field${i}`, one]))) : values
  return { parameter: { type: 'tuple', components } as Parameter, value }
}

const { sample } = fc.letrec<{ sample: Sample }>((tie) => ({
  sample: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    elementary,
    fc.tuple(tie('sample'), fc.option(fc.integer({ min: 1, max: 3 }))).map(([one, length]) => arrayOf(one, length)),
    fc
      .tuple(fc.array(tie('sample'), { minLength: 1, maxLength: 4 }), fc.boolean())
      .map(([all, named]) => tupleOf(all, named)),
  ),
}))

const encoded = fc.array(sample, { minLength: 1, maxLength: 4 }).chain((samples) =>
  fc.tuple(...samples.map(({ value }) => value)).map((values) => ({
    parameters: samples.map(({ parameter }) => parameter),
    values,
    data: AbiParameters.encode(samples.map(({ parameter }) => parameter) as AbiParameter[], values as never),
  })),
)

describe('own decoders are held against the library', () => {
  test('any nesting of any types: what was encoded comes back, and the library says the same', () => {
    fc.assert(
      fc.property(encoded, ({ parameters, values, data }) => {
        const ours = decode(parameters, data)
        expect(ours).toEqual(values)
        // The library drops a byte order mark; everything else must agree.
        if (!JSON.stringify(values, (_, one) => (typeof one === 'bigint' ? `${one}` : one)).includes('\uFEFF')) {
          expect(ours).toEqual(AbiParameters.decode(parameters, data, { checksumAddress: false }))
        }
      }),
      runs,
    )
  })

  test('data cut short never decodes to the same values, and never ends in another error', () => {
    fc.assert(
      fc.property(encoded, fc.nat(), ({ parameters, values, data }, cut) => {
        const bytes = (data.length - 2) / 2
        const short = data.slice(0, 2 + 2 * (cut % bytes))
        // The padding after the last bytes carries nothing, so it may be missing.
        try {
          expect(decode(parameters, short)).toEqual(values)
          expect(/^0*$/.test(data.slice(short.length))).toBe(true)
        } catch (error) {
          if (!(error instanceof MalformedLog)) throw error
        }
      }),
      runs,
    )
  })

  test('random bytes decode or are refused, and never end in another error', () => {
    const types = fc.array(sample, { minLength: 1, maxLength: 3 }).map((all) => all.map(({ parameter }) => parameter))
    const words = fc.array(fc.oneof(fc.integer({ min: 0, max: 256 }).map(word), fc.constant('f'.repeat(64))), {
      maxLength: 12,
    })
    fc.assert(
      fc.property(types, words, (parameters, parts) => {
        try {
          decode(parameters, `0x${parts.join('')}`)
        } catch (error) {
          if (!(error instanceof MalformedLog)) throw error
        }
      }),
      runs,
    )
  })
})

describe('bits outside of a type are refused, where the library takes them', () => {
  const dirty: [string, string][] = [
    ['uint8', word(0x1ff)],
    ['uint48', word(2n ** 48n)],
    ['uint248', word(2n ** 248n)],
    ['int8', word(128)],
    ['int8', word(-129)],
    ['int248', word(2n ** 255n)],
    ['bool', word(2)],
    ['address', word(2n ** 160n)],
    ['bytes4', `12345678${'0'.repeat(55)}1`],
    ['function', 'f'.repeat(64)],
  ]
  for (const [type, digits] of dirty) {
    test(`${type} of ${digits.replace(/^0+/, '…')}`, () => {
      expect(() => decodeOne(type, `0x${digits}`)).toThrow(`outside of ${type}`)
      expect(() => decodeOne(`${type}[]`, `0x${word(32)}${word(1)}${digits}`)).toThrow(MalformedLog)
    })
  }

  test('control: the library answers 511 for a uint8', () => {
    expect(AbiParameters.decode([{ type: 'uint8' }], `0x${word(0x1ff)}`)).toEqual([511])
  })
})

describe('C44: numbers stay exact to the digit', () => {
  test('2^256−1, int256 −1, and what a double would change', () => {
    expect(decodeOne('uint256', `0x${'f'.repeat(64)}`)).toBe(2n ** 256n - 1n)
    expect(decodeOne('int256', `0x${'f'.repeat(64)}`)).toBe(-1n)
    expect(decodeOne('int8', `0x${'f'.repeat(64)}`)).toBe(-1)
    expect(decodeOne('uint256', `0x${word(106531830891460120n)}`)).toBe(106531830891460120n)
    expect(decodeOne('uint48', `0x${word(2 ** 48 - 1)}`)).toBe(2 ** 48 - 1)
    expect(decodeOne('uint56', `0x${word(1)}`)).toBe(1n)
  })
})

describe('C48: bytes that are not UTF-8 never throw out of the loop', () => {
  const text = (bytes: string) => `0x${word(32)}${word(bytes.length / 2)}${bytes.padEnd(64, '0')}`

  test('they become replacement characters; good text and a byte order mark stay as they are', () => {
    expect(decodeOne('string', text('a7'))).toBe('\uFFFD')
    expect(decodeOne('string', text('f09f8c'))).toBe('\uFFFD')
    expect(decodeOne('string', text('6869'))).toBe('hi')
    expect(decodeOne('string', text('006869'))).toBe('\u0000hi')
    expect(decodeOne('string', text('efbbbf61'))).toBe('\uFEFFa')
  })
})

describe('hostile data ends in an error, not in memory', () => {
  test('a length of 2^32−1, or beyond, in two words', () => {
    expect(() => decodeOne('uint256[]', `0x${word(32)}${word(2 ** 32 - 1)}`)).toThrow('too short')
    expect(() => decodeOne('bytes', `0x${word(32)}${word(2 ** 32 - 1)}`)).toThrow('too short')
    expect(() => decodeOne('bytes', `0x${word(2n ** 64n)}`)).toThrow('too large')
    expect(() => decodeOne('string[]', `0x${word(32)}${word(2n ** 255n)}`)).toThrow('too large')
  })

  test('offsets that share one tail: 10 kB would unfold into 27 million values', () => {
    const n = 300
    const pointers = word(n) + word(n * 32).repeat(n)
    const data = `0x${word(32)}${pointers}${pointers}${word(n)}${word(1).repeat(n)}`
    expect(() => decodeOne('uint256[][][]', data)).toThrow('refers to itself too often')
  })

  test('control: a large honest array decodes', () => {
    const n = 20_000
    const data = `0x${word(32)}${word(n)}${word(7).repeat(n)}`
    expect(decodeOne('uint256[]', data)).toHaveLength(n)
  })

  test('elements without width', () => {
    expect(decodeOne('uint256[0]', '0x')).toEqual([])
    expect(() => decodeOne('uint256[0][]', `0x${word(32)}${word(2 ** 32 - 1)}`)).toThrow('refers to itself too often')
    expect(() => decodeOne('uint256[0][4294967295]', '0x')).toThrow('refers to itself too often')
  })

  test('bytes after the arguments are tolerated', () => {
    expect(decodeOne('uint8', `0x${word(5)}${word(6)}ff`)).toBe(5)
  })
})

describe('types that the ABI does not know are refused when a watcher is made', () => {
  for (const type of [
    'uint7',
    'uint264',
    'uint0',
    'bytes0',
    'bytes33',
    'fixed128x18',
    'Token',
    '',
    'uint256[-1]',
    'tuple',
  ]) {
    test(`'${type}'`, () => {
      expect(() => layOut([{ type }])).toThrow(TypeError)
    })
  }

  test('names that would lose a value', () => {
    expect(() =>
      layOut([
        { type: 'bool', name: 'a' },
        { type: 'bool', name: 'a' },
      ]),
    ).toThrow('two parameters are named a')
    expect(() => layOut([{ type: 'bool', name: '__proto__' }])).toThrow(TypeError)
  })

  test('arrays larger than any log, and types nested too deep', () => {
    expect(() => layOut([{ type: 'uint256[4294967295]' }])).toThrow('larger than any log')
    expect(() => layOut([{ type: `uint256${'[]'.repeat(40)}` }])).toThrow('nested deeper')
  })
})
