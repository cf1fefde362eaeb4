import { readdirSync, readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { bloomOf } from '../testkit/bloom.ts'
import type { EventFilter } from './filter.ts'
import type { Log } from './log.ts'
import { parseLogs } from './parse.ts'
import { bloomHoldsAll, bloomMayContain, isEmptyBloom } from './proof.ts'

const corpus = new URL('../../../shared/corpus/blocks/', import.meta.url)
const missing = !exists()

function exists(): boolean {
  try {
    return readdirSync(corpus).length > 0
  } catch {
    return false
  }
}

function blocks(prefix: string): { name: string; bloom: string; logs: Log[] }[] {
  return readdirSync(corpus)
    .filter((name) => name.startsWith(prefix) && !name.includes('receipts-only'))
    .map((name) => {
      const bytes = readFileSync(new URL(name, corpus))
      const item = JSON.parse((name.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString())
      const receipts: { logs: unknown[] }[] = item.receiptsComplete ? item.receipts : []
      return {
        name,
        bloom: item.block.logsBloom,
        logs: parseLogs(receipts.flatMap((one) => one.logs)).map((one) => one.log),
      }
    })
}

const filterOf = (log: Log): EventFilter => {
  return { name: 'x', addresses: [log.address], topics: [log.topics[0] ?? null], topicCount: log.topics.length }
}

test.skipIf(missing)('real Ethereum blocks: every log lies in its bloom, and some strangers are kept out', () => {
  let logs = 0
  let asked = 0
  let strangers = 0
  for (const block of blocks('ethereum-')) {
    if (block.logs.length === 0) continue
    logs += block.logs.length
    expect(bloomHoldsAll(block.bloom as `0x${string}`, block.logs), block.name).toBe(true)
    for (const log of block.logs.filter((_, i) => i % 10 === 0)) {
      asked++
      expect(bloomMayContain(block.bloom as `0x${string}`, [filterOf(log)])).toBe(true)
      const stranger = { ...filterOf(log), addresses: [`0x${log.transactionHash.slice(26)}` as never] }
      if (bloomMayContain(block.bloom as `0x${string}`, [stranger])) strangers++
    }
  }
  // Busy blocks have nearly full blooms: about 70 % of strangers get through. "Perhaps" is weak evidence there.
  console.log(`bloom: ${logs} real logs inside, ${strangers} of ${asked} strangers let through`)
  expect(logs).toBeGreaterThan(500)
  expect(strangers).toBeLessThan(0.9 * asked)
})

test('says so when the real data is not here', () => {
  if (missing) console.warn('NOT RUN: ../shared/corpus is missing, so no real bloom was checked')
})

test('a filter is "perhaps" only if each of its parts may be in the bloom', () => {
  const address = `0x${'11'.repeat(20)}` as never
  const [topic, other] = [`0x${'22'.repeat(32)}`, `0x${'33'.repeat(32)}`] as never[]
  const bloom = bloomOf([{ address, topics: [topic] } as never])
  const may = (addresses: never[] | null, topics: never[]) =>
    bloomMayContain(bloom, [{ name: 'x', addresses, topics, topicCount: 1 }])
  expect(may([address], [topic as never])).toBe(true)
  expect(may(null, [[other, topic] as never])).toBe(true)
  expect(may([address], [other as never])).toBe(false)
  expect(may([`0x${'44'.repeat(20)}` as never], [topic as never])).toBe(false)
  expect(isEmptyBloom(bloom)).toBe(false)
  expect(isEmptyBloom(`0x${'0'.repeat(512)}`)).toBe(true)
})
