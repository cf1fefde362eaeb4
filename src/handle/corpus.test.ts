import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { beforeAll, describe, expect, test } from 'vitest'
import { address, blockNumber, hash, logIndex } from '../chain/block.ts'
import type { Log } from '../chain/log.ts'
import { stableId } from '../dedup/identity.ts'
import type { Hex } from '../util/bytes.ts'
import { parseEvent } from './abi.ts'
import { compileDecoder, decodeEvent } from './event.ts'
import { compileWatcher, defineWatch } from './watch.ts'

/** Real logs and ABIs, kept beside the checkout; decoded by ethers 6.13.5. */
const CORPUS = new URL('../../../shared/corpus/', import.meta.url)
const found = existsSync(new URL('abis/decoded-samples.json.gz', CORPUS))
if (!found)
  console.error(
    '\n*** NOT RUN: the corpus of real logs is missing (../shared/corpus), so no real log was decoded ***\n',
  )

interface RawLog {
  address: string
  topics: string[]
  data: Hex
  blockNumber: string
  blockHash: string
  transactionHash: string
  transactionIndex: string
  logIndex: string
}

interface Decoded {
  name: string
  type: string
  value: unknown
}

interface Sample {
  abi: string
  event: string
  signature: string
  log: RawLog
  decoded: Decoded[]
}

interface AbiItem {
  type: string
  name?: string
}

function read(path: string): unknown {
  const bytes = readFileSync(new URL(path, CORPUS))
  return JSON.parse((path.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString('utf8'))
}

function logOf(raw: RawLog): Log {
  return {
    address: address(raw.address),
    topics: raw.topics.map(hash),
    data: raw.data.toLowerCase() as Hex,
    blockNumber: blockNumber(BigInt(raw.blockNumber)),
    blockHash: hash(raw.blockHash),
    transactionHash: hash(raw.transactionHash),
    transactionIndex: Number(raw.transactionIndex),
    logIndex: logIndex(BigInt(raw.logIndex)),
  }
}

/** Our values as the corpus writes them: numbers as text, tuples as lists. Addresses are compared in lower case. */
function plain(value: unknown): unknown {
  if (typeof value === 'bigint' || typeof value === 'number') return String(value)
  if (Array.isArray(value)) return value.map(plain)
  if (typeof value === 'object' && value !== null) return Object.values(value).map(plain)
  return typeof value === 'string' && value.startsWith('0x') ? value.toLowerCase() : value
}

/** As the corpus writes it: an indexed dynamic value is `{ indexedHash }`. */
function expected(value: unknown): unknown {
  const isHash = typeof value === 'object' && value !== null && 'indexedHash' in value
  return plain(isHash ? value.indexedHash : value)
}

describe.runIf(found)('real logs', () => {
  let samples: Sample[]
  beforeAll(() => {
    samples = (read('abis/decoded-samples.json.gz') as { samples: Sample[] }).samples
  })

  test('decode to what ethers says, by signature', () => {
    expect(samples).toHaveLength(99)
    for (const { event, log, decoded } of samples) {
      const args = compileDecoder(parseEvent('E', event))(logOf(log)) as Record<string, unknown>
      expect(Object.entries(args).map(([name, value]) => [name, plain(value)])).toEqual(
        decoded.map(({ name, value }) => [name, expected(value)]),
      )
    }
  })

  test('decode to the same through the JSON ABI they come from', () => {
    for (const { abi, event, signature, log } of samples) {
      const items = (read(abi) as { abi: AbiItem[] }).abi
      const matching = items.filter((item) => item.type === 'event').map((item) => parseEvent('E', item))
      const parsed = matching.find((one) => one.signature === signature && one.topicCount === log.topics.length)
      expect(parsed && compileDecoder(parsed)(logOf(log))).toEqual(compileDecoder(parseEvent('E', event))(logOf(log)))
    }
  })

  test('every event of every ABI compiles; overloads are told apart by signature', () => {
    const names = readdirSync(new URL('abis/', CORPUS)).filter((name) => name.endsWith('.json'))
    let events = 0
    for (const name of names) {
      const items = (read(`abis/${name}`) as { abi: AbiItem[] }).abi.filter((item) => item.type === 'event')
      for (const item of items) {
        expect(parseEvent('E', item).signature.startsWith(`${item.name}(`)).toBe(true)
        compileDecoder(parseEvent('E', item))
        events++
      }
    }
    expect(names.length).toBeGreaterThanOrEqual(17)
    expect(events).toBeGreaterThan(150)
  })

  test('C42, C43: every shape of log goes to the event that fits, and the rest is passed over', () => {
    const { shapes } = read('oddities/log-topic-shapes.json') as { shapes: Record<string, { log: RawLog }[]> }
    const logs = Object.entries(shapes).flatMap(([shape, all]) => all.map(({ log }) => ({ shape, log: logOf(log) })))
    const events = {
      Coin: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' },
      Token: { event: 'event Transfer(address indexed from, address indexed to, uint256 indexed tokenId)' },
      Kitty: { event: 'event Transfer(address from, address to, uint256 tokenId)' },
      Note: {
        event:
          'event LogNote(bytes4 indexed sig, address indexed guy, bytes32 indexed foo, bytes32 indexed bar, uint256 wad, bytes fax) anonymous',
      },
    } as const
    const on = { ethereum: { startBlock: 1, address: [...new Set(logs.map(({ log }) => log.address))] } }
    const compiled = compileWatcher(
      'all',
      defineWatch<unknown, 'sync'>()({ on, events, handle: () => {} }),
      'ethereum',
      1,
    )
    const seen = logs.map(({ shape, log }) => [
      shape,
      decodeEvent(compiled, { log, stableId: stableId(1, log) })?.name ?? null,
    ])
    expect(new Map(seen as [string, string | null][])).toEqual(
      new Map([
        ['Transfer-topic0-with-2-indexed (ERC-20)', 'Coin'],
        ['Transfer-topic0-with-3-indexed (ERC-721, empty data)', 'Token'],
        ['event-without-arguments (1 topic, no data)', null],
        ['Transfer-topic0-with-0-indexed (CryptoKitties style)', 'Kitty'],
        ['anonymous-event (4-byte selector left-aligned in topic0)', 'Note'],
        ['data-length-not-multiple-of-32', 'Note'],
      ]),
    )
    expect(seen).toHaveLength(18)
  })
})
