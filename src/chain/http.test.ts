import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { realWorld } from '../util/world.ts'
import { eip1193Transport, httpTransport } from './http.ts'
import type { RpcOutcome } from './rpc.ts'
import { readRefusal } from './rpc-errors.ts'

type Answer = (calls: { id: number; method: string }[], response: ServerResponse) => void
let close: (() => Promise<void>) | undefined

afterEach(async () => {
  await close?.()
  close = undefined
})

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request) text += chunk
  return text
}

async function node(answer: Answer, timeoutMs = 2000) {
  const server = createServer(async (request, response) => {
    const body = JSON.parse(await bodyOf(request))
    answer(Array.isArray(body) ? body : [body], response)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  close = () =>
    new Promise((resolve) => {
      server.closeAllConnections()
      server.close(() => resolve())
    })
  const { port } = server.address() as AddressInfo
  return httpTransport(`http://127.0.0.1:${port}/secret-key`, { label: 'rpc[0]', timeoutMs, world: realWorld })
}

const json = (response: ServerResponse, body: unknown, status = 200, headers: Record<string, string> = {}) => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}
const calls = (count: number) => Array.from({ length: count }, (_, i) => ({ method: `call${i}`, params: [] }))
const meaning = (outcome: RpcOutcome | undefined) =>
  outcome?.ok ? 'ok' : outcome && readRefusal(outcome.error).meaning

test('answers are matched by id, in any order', async () => {
  const transport = await node((asked, response) =>
    json(response, asked.map(({ id, method }) => ({ id, result: method })).reverse()),
  )
  const outcomes = await transport.send(calls(5))
  expect(outcomes.map((one) => one.ok && one.result)).toEqual(['call0', 'call1', 'call2', 'call3', 'call4'])
})

test('C13: a batch refused with one object is asked again in smaller ones, and the limit is remembered', async () => {
  const sizes: number[] = []
  const transport = await node((asked, response) => {
    sizes.push(asked.length)
    if (asked.length > 10) {
      return json(response, {
        jsonrpc: '2.0',
        id: null,
        error: { code: -32000, message: `batch limit 10 exceeded: ${asked.length} requests given` },
      })
    }
    json(
      response,
      asked.map(({ id, method }) => ({ id, result: method })),
    )
  })
  const outcomes = await transport.send(calls(25))
  expect(outcomes.map((one) => one.ok && one.result)).toEqual(calls(25).map((call) => call.method))
  await transport.send(calls(12))
  expect(sizes).toEqual([25, 10, 10, 5, 10, 2])
})

test('C13: an answer that is missing is a failure of its call, not an empty one', async () => {
  const transport = await node((asked, response) =>
    json(
      response,
      asked.filter(({ id }) => id !== 2).map(({ id }) => ({ id, result: [] })),
    ),
  )
  expect((await transport.send(calls(3))).map(meaning)).toEqual(['ok', 'unanswered', 'ok'])
})

test('a refusal under another status is read from its body; without a body the status speaks', async () => {
  const replies: Answer[] = [
    (_, response) =>
      json(
        response,
        {
          id: null,
          error: { code: -32602, message: 'eth_getLogs and eth_newFilter are limited to a 10,000 blocks range' },
        },
        413,
      ),
    (_, response) => response.writeHead(429, { 'retry-after': '7' }).end('Too Many Requests'),
    (_, response) => response.writeHead(502).end('<html>'),
    (_, response) => response.writeHead(200).end('<html>'),
    (_, response) => json(response, 'text'),
    (_, response) => json(response, []),
    (_, response) => response.destroy(),
  ]
  const transport = await node((asked, response) => replies.shift()?.(asked, response))
  const seen: unknown[] = []
  for (let i = 0; i < 7; i++) {
    const [outcome] = await transport.send(calls(1))
    seen.push(meaning(outcome))
    if (i === 1) expect(outcome?.ok === false && readRefusal(outcome.error).hint.waitMs).toBe(7000)
  }
  expect(seen).toEqual([
    'range-too-large',
    'rate-limited',
    'server-busy',
    'invalid-answer',
    'invalid-answer',
    'invalid-answer',
    'unreachable',
  ])
})

test('a node that does not answer in time is given up, and a caller that aborts is told so', async () => {
  const silent = await node(() => {}, 30)
  expect(meaning((await silent.send(calls(1)))[0])).toBe('unanswered')
  const stop = new AbortController()
  stop.abort(new Error('stopped'))
  await expect(silent.send(calls(1), stop.signal)).rejects.toThrow('stopped')
})

test('P12: the URL is in no failure', async () => {
  const transport = httpTransport('http://127.0.0.1:1/secret-key', {
    label: 'rpc[0]',
    timeoutMs: 500,
    world: realWorld,
  })
  expect(JSON.stringify(await transport.send(calls(2)))).not.toContain('secret-key')
  expect(JSON.stringify(transport)).not.toContain('secret-key')
})

test('an EIP-1193 provider plugs in by shape; its errors become outcomes', async () => {
  const provider = {
    async request({ method }: { method: string }) {
      if (method === 'call1') throw Object.assign(new Error('nope'), { code: -32601 })
      return method
    },
  }
  const outcomes = await eip1193Transport(provider, { label: 'viem', timeoutMs: 2000, world: realWorld }).send(calls(2))
  expect(outcomes.map(meaning)).toEqual(['ok', 'unsupported'])
})

test('a URL with user and password works: both go into the header that they stand for', async () => {
  let seen: string | undefined
  const server = createServer((request, response) => {
    seen = request.headers.authorization
    json(response, { id: 1, result: '0x1' })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  close = () =>
    new Promise((resolve) => {
      server.closeAllConnections()
      server.close(() => resolve())
    })
  const { port } = server.address() as AddressInfo
  const url = `http://alice:p%40ss@127.0.0.1:${port}`
  const [outcome] = await httpTransport(url, { label: 'rpc[0]', timeoutMs: 2000, world: realWorld }).send(calls(1))
  expect(meaning(outcome)).toBe('ok')
  expect(seen).toBe(`Basic ${Buffer.from('alice:p@ss').toString('base64')}`)
})
