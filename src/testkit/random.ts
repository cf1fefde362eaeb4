/**
 * Seeded randomness for tests: the same seed gives the same numbers on every machine. Streams are forked by a label,
 * so what a part draws depends on what it draws for, never on how much other parts drew before it.
 *
 * The generator is sfc32 (Chris Doty-Humphrey, PractRand): 128 bits of state, period of at least 2^32. It is not for
 * secrets.
 */

const RANGE_32 = 0x1_0000_0000

type Words = [number, number, number, number]

/** 32-bit finaliser of MurmurHash3: every input bit reaches every output bit. */
function mix(word: number): number {
  let h = word
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b)
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35)
  return (h ^ (h >>> 16)) >>> 0
}

/** Hashes text into four words. Each lane is FNV-1a with its own start, finished by `mix`. */
function hashText(text: string): Words {
  const lanes: Words = [0x811c9dc5, 0x9e3779b9, 0x7f4a7c15, 0x94d049bb]
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    lanes[0] = Math.imul(lanes[0] ^ code, 0x01000193)
    lanes[1] = Math.imul(lanes[1] ^ (code + i), 0x85ebca77)
    lanes[2] = Math.imul(lanes[2] ^ (code << 8), 0xc2b2ae3d)
    lanes[3] = Math.imul(lanes[3] ^ lanes[0], 0x27d4eb2f)
  }
  return [mix(lanes[0] ^ text.length), mix(lanes[1] ^ lanes[0]), mix(lanes[2] ^ lanes[1]), mix(lanes[3] ^ lanes[2])]
}

export class Random {
  /** What this stream was made from: the seed, then the labels of each fork. */
  readonly seed: string
  #words: Words

  /** @param seed any number or text; `1` and `'1'` are the same seed */
  constructor(seed: number | string) {
    this.seed = String(seed)
    this.#words = hashText(this.seed)
    // sfc32 needs about a dozen rounds before all state bits depend on all seed bits.
    for (let i = 0; i < 15; i++) this.#word()
  }

  #word(): number {
    const [a, b, c, counter] = this.#words
    const sum = (a + b + counter) >>> 0
    const rotated = ((c << 21) | (c >>> 11)) >>> 0
    this.#words = [(b ^ (b >>> 9)) >>> 0, (c + (c << 3)) >>> 0, (rotated + sum) >>> 0, (counter + 1) >>> 0]
    return sum
  }

  /**
   * A stream of its own for `label`. It depends on this stream's seed and the label alone, so forks may be taken in
   * any order and any number of times, and the same label always gives the same stream.
   */
  fork(label: string | number): Random {
    return new Random(`${this.seed}/${label}`)
  }

  /** A number in [0, 1) with 53 random bits. */
  next(): number {
    const high = this.#word() >>> 5
    const low = this.#word() >>> 6
    return (high * 0x400_0000 + low) / (RANGE_32 * 0x20_0000)
  }

  /**
   * A whole number from `min` to `max`, both included.
   * @throws {RangeError} when the bounds are not safe integers or are the wrong way round.
   */
  int(min: number, max: number): number {
    if (!Number.isSafeInteger(min) || !Number.isSafeInteger(max) || min > max) {
      throw new RangeError(`int needs whole numbers with min <= max, got ${min} and ${max}`)
    }
    return min + Math.floor(this.next() * (max - min + 1))
  }

  /** True with probability `p`: never for 0, always for 1. */
  chance(p: number): boolean {
    return this.next() < p
  }

  /** @throws {RangeError} when the list is empty. */
  pick<T>(list: readonly T[]): T {
    if (list.length === 0) throw new RangeError('cannot pick from an empty list')
    return list[this.int(0, list.length - 1)] as T
  }

  /** A shuffled copy (Fisher-Yates); the list itself stays as it is. */
  shuffle<T>(list: readonly T[]): T[] {
    const copy = [...list]
    for (let i = copy.length - 1; i > 0; i--) {
      const j = this.int(0, i)
      const held = copy[i] as T
      copy[i] = copy[j] as T
      copy[j] = held
    }
    return copy
  }

  bytes(length: number): Uint8Array {
    return Uint8Array.from({ length }, () => this.#word() & 0xff)
  }
}
