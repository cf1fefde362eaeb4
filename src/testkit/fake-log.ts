import { bytesToHex, type Hex, hexToBytes } from '../util/bytes.ts'
import { sha256 } from '../util/digest.ts'

/** What a contract emits: content without a place. The chain gives it its place when a block is mined. */
export interface FakeLog {
  readonly address: Hex
  /** 0 to 4 topics of 32 bytes. */
  readonly topics: readonly Hex[]
  readonly data: Hex
}

/** keccak256("Transfer(address,address,uint256)"): shared by ERC-20 and ERC-721 (C42). */
export const TRANSFER_TOPIC: Hex = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

const MAX_UINT256 = 2n ** 256n - 1n

/** A value as one 32-byte word. @throws {RangeError} outside 0 … 2^256 − 1. */
export function word(value: bigint | number): Hex {
  const big = BigInt(value)
  if (big < 0n || big > MAX_UINT256) throw new RangeError(`not a uint256: ${big}`)
  return `0x${big.toString(16).padStart(64, '0')}`
}

const SHAPES = {
  'an address': /^0x[0-9a-f]{40}$/i,
  'a topic': /^0x[0-9a-f]{64}$/i,
  'a transaction hash': /^0x[0-9a-f]{64}$/i,
  'log data': /^0x([0-9a-f]{2})*$/i,
} as const

function lowerHex(text: string, what: keyof typeof SHAPES): Hex {
  if (!SHAPES[what].test(text)) throw new TypeError(`not ${what}: ${text.slice(0, 80)}`)
  return text.toLowerCase() as Hex
}

/** An address as a topic: left-padded to 32 bytes. */
export function addressWord(address: string): Hex {
  return `0x${lowerHex(address, 'an address').slice(2).padStart(64, '0')}`
}

/**
 * Any log. Hex in either spelling, stored in lower case.
 * @throws {TypeError} for an address that is not 20 bytes, a topic that is not 32, more than 4 topics, broken data
 */
export function rawLog(address: string, topics: readonly string[], data = '0x'): FakeLog {
  if (topics.length > 4) throw new TypeError(`a log has at most 4 topics, got ${topics.length}`)
  return {
    address: lowerHex(address, 'an address'),
    topics: topics.map((topic) => lowerHex(topic, 'a topic')),
    data: lowerHex(data, 'log data'),
  }
}

/** An ERC-20 `Transfer(address indexed from, address indexed to, uint256 value)`. */
export function transfer(token: string, from: string, to: string, value: bigint | number): FakeLog {
  return rawLog(token, [TRANSFER_TOPIC, addressWord(from), addressWord(to)], word(value))
}

/** An ERC-721 `Transfer`, the id as fourth topic and no data: the look-alike of C42. */
export function nftTransfer(token: string, from: string, to: string, tokenId: bigint | number): FakeLog {
  return rawLog(token, [TRANSFER_TOPIC, addressWord(from), addressWord(to), word(tokenId)])
}

/**
 * An address to be read in test output: the name's bytes in front, zeros behind. `testAddress('BOB')` is `0x424f42…`.
 * @throws {RangeError} when the name is empty or longer than 20 bytes.
 */
export function testAddress(name: string): Hex {
  const bytes = new TextEncoder().encode(name)
  if (bytes.length === 0 || bytes.length > 20) throw new RangeError(`a name has 1 to 20 bytes: ${name}`)
  return bytesToHex(bytes).padEnd(42, '0') as Hex
}

/** A transaction: a hash that survives re-inclusion, and the logs it emits wherever it is mined. */
export interface FakeTransaction {
  readonly hash: Hex
  readonly from: Hex
  readonly to: Hex
  /** `reverted` emits no logs (C73). */
  readonly status: 'success' | 'reverted'
  readonly logs: readonly FakeLog[]
}

export interface TransactionInput {
  readonly logs: readonly FakeLog[]
  /** 32 bytes; default: made by the chain, unique. */
  readonly hash?: Hex
  readonly from?: Hex
  readonly to?: Hex
  readonly status?: 'success' | 'reverted'
}

/** What a block can be mined from: a transaction, a bare log (a transaction of its own), or several logs of one. */
export type Minable = FakeLog | readonly FakeLog[] | TransactionInput

const DEFAULT_SENDER = testAddress('SENDER')

function inputOf(minable: Minable): TransactionInput {
  if ('logs' in minable) return minable
  return { logs: Array.isArray(minable) ? (minable as readonly FakeLog[]) : [minable as FakeLog] }
}

/** Fills in what the caller left out. A log's contract is the default receiver. */
export function completeTransaction(minable: Minable, nextHash: () => Hex): FakeTransaction {
  const input = inputOf(minable)
  const status = input.status ?? 'success'
  return {
    hash: input.hash ? lowerHex(input.hash, 'a transaction hash') : nextHash(),
    from: input.from ?? DEFAULT_SENDER,
    to: input.to ?? input.logs[0]?.address ?? DEFAULT_SENDER,
    status,
    logs: status === 'reverted' ? [] : input.logs,
  }
}

/** Transaction hashes to be read: `0x7478` ("tx"), the count as 6 hex digits, zeros, then a digest for uniqueness. */
export function readableTransactionHash(chainKey: string, count: number): Hex {
  const digest = bytesToHex(sha256(new TextEncoder().encode(`${chainKey}/tx/${count}`)))
  return `0x7478${count.toString(16).padStart(6, '0')}${'0'.repeat(22)}${digest.slice(2, 34)}`
}

/** Adds one to the last word of the data, or to the last topic where there is no data: same event, other value. */
export function changeContent(log: FakeLog): FakeLog {
  const bump = (hex: string) => word((BigInt(`0x${hex}`) + 1n) & MAX_UINT256).slice(2)
  const size = hexToBytes(log.data).length
  if (size >= 32) return { ...log, data: `${log.data.slice(0, -64)}${bump(log.data.slice(-64))}` as Hex }
  const last = log.topics.at(-1)
  if (log.topics.length < 2 || last === undefined) return { ...log, data: `${log.data}01` as Hex }
  return { ...log, topics: [...log.topics.slice(0, -1), `0x${bump(last.slice(2))}`] }
}
