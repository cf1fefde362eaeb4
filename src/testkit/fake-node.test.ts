import { afterEach, describe, expect, test } from 'vitest'
import { fakeChain } from './fake-chain.ts'
import { testAddress, transfer } from './fake-log.ts'
import { FakeNode, fakeNode } from './fake-node.ts'
import { type FakeRpcOptions, fakeRpc } from './fake-rpc.ts'

const open: FakeNode[] = []

async function serve(options: FakeRpcOptions = {}): Promise<string> {
  const chain = fakeChain({ chainId: 5 })
  for (let n = 1; n <= 5; n++) chain.mine([transfer(testAddress('TOKEN'), testAddress('ALICE'), testAddress('BOB'), n)])
  const node = fakeNode(fakeRpc(chain, options))
  open.push(node)
  return node.listen()
}

afterEach(async () => {
  for (const node of open.splice(0)) await node.close()
})

const call = (id: number, method: string, ...params: unknown[]) => ({ jsonrpc: '2.0', id, method, params })
const post = (url: string, body: unknown, signal?: AbortSignal) =>
  fetch(url, {
    method: 'POST',
    body: typeof body === 'string' ? body : JSON.stringify(body),
    ...(signal ? { signal } : {}),
  })
const BATCH = [call(7, 'eth_chainId'), call(8, 'eth_blockNumber'), call(9, 'eth_nothing')]

describe('a fake node behind a real URL', () => {
  test('speaks JSON-RPC over HTTP, single and in batches', async () => {
    const url = await serve()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect(await (await post(url, call(1, 'eth_chainId'))).json()).toEqual({ jsonrpc: '2.0', id: 1, result: '0x5' })
    const answers = await (await post(url, BATCH)).json()
    expect(answers).toMatchObject([
      { id: 7, result: '0x5' },
      { id: 8, result: '0x5' },
      { id: 9, error: { code: -32601 } },
    ])
    expect(await (await post(url, [call(1, 'eth_chainId')])).json()).toHaveLength(1)
  })

  test('refuses what is not JSON', async () => {
    const response = await post(await serve(), '{')
    expect([response.status, await response.json()]).toMatchObject([400, { error: { code: -32700 } }])
  })

  test('cuts the connection, before or in the middle of the answer', async () => {
    const before = await serve({ faults: { cut: true } })
    await expect(post(before, BATCH)).rejects.toThrow()
    const middle = await post(await serve({ faults: { cutMidAnswer: true } }), BATCH)
    expect(middle.status).toBe(200)
    await expect(middle.text()).rejects.toThrow()
  })

  test('hangs until the client gives up, and can still be closed', async () => {
    const stop = new AbortController()
    const url = await serve({ faults: { hang: true } })
    const first = post(url, BATCH, stop.signal)
    const second = post(url, BATCH)
    void second.catch(() => undefined)
    stop.abort()
    await expect(first).rejects.toThrow()
    await open[0]?.close()
    await expect(second).rejects.toThrow()
  })

  test('rate limits with Retry-After, and shows a page of HTML', async () => {
    const limited = await post(await serve({ faults: { rateLimited: true } }), BATCH)
    expect([limited.status, limited.headers.get('retry-after')]).toEqual([429, '1'])
    const page = await post(await serve({ faults: { htmlPage: true } }), BATCH)
    expect([page.status, (await page.text()).slice(0, 6)]).toEqual([502, '<html>'])
  })

  test('refuses a batch with one object, leaves answers out, mixes them (C13)', async () => {
    const refused = await (await post(await serve({ faults: { batchRefused: true } }), BATCH)).json()
    expect(refused).toMatchObject({ id: null, error: { code: -32000 } })
    const missing = (await (await post(await serve({ faults: { missingAnswers: true } }), BATCH)).json()) as unknown[]
    expect(missing.length).toBeLessThan(3)
    const orders = new Set<string>()
    for (let seed = 0; seed < 8; seed++) {
      const answers = (await (await post(await serve({ seed, faults: { shuffledAnswers: true } }), BATCH)).json()) as {
        id: number
      }[]
      expect(answers.map(({ id }) => id).sort()).toEqual([7, 8, 9])
      orders.add(answers.map(({ id }) => id).join())
    }
    expect(orders.size).toBeGreaterThan(1)
  })

  test('closing twice is harmless', async () => {
    const node = fakeNode(fakeRpc(fakeChain({ chainId: 1 })))
    await node.listen()
    await node.close()
    await node.close()
    expect(node).toBeInstanceOf(FakeNode)
  })
})
