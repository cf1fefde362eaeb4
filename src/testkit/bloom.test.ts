import { existsSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import type { Hex } from '../util/bytes.ts'
import { bloomOf, EMPTY_BLOOM } from './bloom.ts'

const corpus = new URL(
  '../../../shared/corpus/logs/ethereum-18000000-jsonrpc-batch-block-and-logs.json.gz',
  import.meta.url,
)
const present = existsSync(corpus)
if (!present) console.warn('NOT RUN: blooms against a real block. The corpus is not beside this checkout.')

interface Recorded {
  readonly response: readonly [
    { readonly result: { readonly logsBloom: Hex } },
    { readonly result: readonly { readonly address: Hex; readonly topics: Hex[] }[] },
  ]
}

test.skipIf(!present)('the bloom of a real block is worked out bit for bit', () => {
  const recorded = JSON.parse(gunzipSync(readFileSync(corpus)).toString('utf8')) as Recorded
  const [block, logs] = recorded.response
  expect(logs.result.length).toBeGreaterThan(100)
  expect(bloomOf(logs.result)).toBe(block.result.logsBloom)
})

test('no logs, no bits', () => {
  expect(bloomOf([])).toBe(EMPTY_BLOOM)
  expect(EMPTY_BLOOM).toHaveLength(2 + 512)
})
