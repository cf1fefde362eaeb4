import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { createTidemark } from '../src/app/tidemark.ts'
import { defineConfig, settingPaths, trackReads } from '../src/config.ts'
import { sqlite, watch } from '../src/store/sqlite/index.ts'
import { fakeChain } from '../src/testkit/fake-chain.ts'
import { testAddress } from '../src/testkit/fake-log.ts'
import { fakeNode } from '../src/testkit/fake-node.ts'
import { fakeRpc } from '../src/testkit/fake-rpc.ts'
import { everySetting } from './support/every-setting.ts'

// A setting that is set and never read is the worst kind: everybody believes in it.

const SOURCE = new URL('../src/', import.meta.url)

function sources(): string[] {
  const names = readdirSync(SOURCE, { recursive: true, encoding: 'utf8' })
  const read = (name: string) => readFileSync(new URL(name, SOURCE), 'utf8')
  return names
    .filter((name) => name.endsWith('.ts') && !/\.test(-d)?\.ts$/.test(name) && name !== 'config.ts')
    .map(read)
}

/** `config.key`, `chain.key`, `settings.key`, or the key taken apart out of such an object. */
function isRead(key: string, texts: readonly string[]): boolean {
  const member = new RegExp(`\\b\\w*(config|chain|settings|options)\\w*\\??\\.${key}\\b`, 'i')
  const apart = new RegExp(`\\{[^{}]*\\b${key}\\b[^{}]*\\}\\s*=[^=>]*(config|chain|settings|options)`, 'i')
  return texts.some((text) => member.test(text) || apart.test(text))
}

describe('every setting is read by someone', () => {
  const texts = sources()
  const keys = settingPaths().map((path) => path.replace(/\.\*$/, '').split('.').at(-1) ?? '')

  test.each(keys)('%s occurs in the source', (key) => {
    expect(isRead(key, texts)).toBe(true)
  })

  test('control: a setting that nobody reads is found', () => {
    expect(isRead('logsPerBlock', texts)).toBe(false)
  })

  test('a run reads each of them, of a configuration that sets them all', async () => {
    const chain = fakeChain({ chainId: 1 })
    chain.mineEmpty(20)
    const node = fakeNode(fakeRpc(chain))
    const deposits = watch({
      on: { ethereum: { address: testAddress('TOKEN'), startBlock: 1, endBlock: 10 } },
      events: { Transfer: { event: 'event Transfer(address indexed from, address indexed to, uint256 value)' } },
      handle() {},
    })
    const input = everySetting({
      store: sqlite({ file: ':memory:' }),
      watchers: { deposits },
      rpc: await node.listen(),
    })
    const given = [...Object.keys(input), ...Object.keys(input.chains.ethereum ?? {}).map((key) => `chains.*.${key}`)]
    expect(
      given
        .filter((key) => key !== 'chains' && key !== 'watchers')
        .concat('watchers.*')
        .sort(),
    ).toEqual(settingPaths().sort())

    const { config, unread } = trackReads(defineConfig(input))
    const tidemark = createTidemark(config)
    await tidemark.runOnce({ budgetMs: 5_000 })
    await tidemark.stop()
    await node.close()
    // The level belongs to whoever makes the logger: the command line, or the process that embeds Tidemark.
    expect(unread().filter((key) => key !== 'logLevel')).toEqual([])
  })
})
