import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { RpcCall, RpcOutcome } from '../chain/rpc.ts'
import type { FakeRpc } from './fake-rpc.ts'
import type { WireOutcome } from './wire-faults.ts'

/** A request body above this is refused with HTTP 413. */
const MAX_BODY_BYTES = 16 * 1024 * 1024

interface WireCall {
  readonly id: unknown
  readonly call: RpcCall
}

function toCall(item: unknown): WireCall {
  const { id = null, method, params } = (item ?? {}) as { id?: unknown; method?: unknown; params?: unknown }
  return { id, call: { method: String(method), params: Array.isArray(params) ? params : [] } }
}

async function bodyOf(request: IncomingMessage): Promise<string | null> {
  const parts: Buffer[] = []
  let size = 0
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length
    if (size > MAX_BODY_BYTES) return null
    parts.push(part)
  }
  return Buffer.concat(parts).toString('utf8')
}

function toJson(id: unknown, outcome: RpcOutcome | undefined): unknown {
  if (outcome?.ok) return { jsonrpc: '2.0', id, result: outcome.result }
  const { message, code, data } = outcome?.error ?? { message: 'no answer' }
  return { jsonrpc: '2.0', id, error: { code, message, data } }
}

function reply(
  response: ServerResponse,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(body)
}

const refusal = (code: number, message: string) =>
  JSON.stringify({ jsonrpc: '2.0', id: null, error: { code, message } })

/** The text of an answer: an object for a single call, a list for a batch; a lone call that got none has an empty list. */
function textOf(
  outcome: Extract<WireOutcome, { kind: 'answers' }>,
  calls: readonly WireCall[],
  batch: boolean,
): string {
  const answers = outcome.onWire.map((i) => toJson(calls[i]?.id, outcome.answers[i]))
  return JSON.stringify(batch || answers.length !== 1 ? answers : answers[0])
}

/**
 * Serves a fake node over HTTP on the loopback interface: JSON-RPC 2.0, single calls and batches, with the faults that
 * need a socket. It serves tests and the demo, and must not be reachable from elsewhere.
 *
 * ```ts
 * const node = fakeNode(fakeRpc(chain, { faults: { cutMidAnswer: 0.1 } }))
 * const url = await node.listen()
 * …
 * await node.close()
 * ```
 */
export class FakeNode {
  readonly rpc: FakeRpc
  readonly #server: Server
  /** Requests that are never answered, to be dropped on close. */
  readonly #hanging = new Set<ServerResponse>()

  constructor(rpc: FakeRpc) {
    this.rpc = rpc
    this.#server = createServer((request, response) => {
      this.#serve(request, response).catch(() => response.destroy())
    })
  }

  /**
   * Starts listening on 127.0.0.1.
   * @param port default 0: any free one
   * @returns the URL
   */
  async listen(port = 0): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject)
      this.#server.listen(port, '127.0.0.1', resolve)
    })
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  /** Ends every connection, also those that hang, and gives the port back. May be called twice. */
  async close(): Promise<void> {
    for (const response of this.#hanging) response.destroy()
    this.#hanging.clear()
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const text = await bodyOf(request)
    if (text === null) return reply(response, 413, refusal(-32600, 'request too large'))
    let body: unknown
    try {
      body = JSON.parse(text)
    } catch {
      return reply(response, 400, refusal(-32700, 'parse error'))
    }
    const batch = Array.isArray(body)
    const calls = (Array.isArray(body) ? body : [body]).map(toCall)
    this.#send(response, this.rpc.handle(calls.map(({ call }) => call)), calls, batch)
  }

  #send(response: ServerResponse, outcome: WireOutcome, calls: readonly WireCall[], batch: boolean): void {
    switch (outcome.kind) {
      case 'answers':
        reply(response, 200, textOf(outcome, calls, batch))
        break
      case 'batch-error':
        reply(response, 200, refusal(outcome.error.code ?? -32000, outcome.error.message))
        break
      case 'http':
        reply(response, outcome.status, outcome.body, outcome.headers)
        break
      case 'hang':
        this.#hanging.add(response)
        response.once('close', () => this.#hanging.delete(response))
        break
      case 'cut':
        cut(response, outcome.midAnswer)
        break
    }
  }
}

/** Half an answer is sent before the connection is reset, or nothing at all. */
function cut(response: ServerResponse, midAnswer: boolean): void {
  if (!midAnswer) {
    response.socket?.destroy()
    return
  }
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': '1000' })
  response.write('[{"jsonrpc":"2.0","id":1,"resu', () => response.socket?.destroy())
}

/** A fake node behind a real URL: see {@link FakeNode}. */
export function fakeNode(rpc: FakeRpc): FakeNode {
  return new FakeNode(rpc)
}
