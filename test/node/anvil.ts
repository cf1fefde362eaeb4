import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { Agent, request } from 'node:http'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'

/** Chain id of the node; not one of the fake chains'. */
export const CHAIN_ID = 31_338
/** Accounts that may send: far more than send within the deepest reorg, so that a moved transaction keeps a valid nonce. */
const ACCOUNTS = 160
const READY_MS = 20_000
const START_TRIES = 3

/** A log as the node sends it. */
export interface NodeLog {
  readonly address: string
  readonly topics: readonly string[]
  readonly data: string
  readonly blockNumber: string
  readonly blockHash: string
  readonly transactionHash: string
  readonly transactionIndex: string
  readonly logIndex: string
}

export interface NodeBlock {
  readonly number: string
  readonly hash: string
  readonly transactions: readonly string[]
}

export type RpcRequest = readonly [method: string, ...params: unknown[]]

interface Answer<T> {
  readonly id: number
  readonly result?: T
  readonly error?: { readonly message: string }
}

export function hex(n: number): string {
  return `0x${n.toString(16)}`
}

/** The node's program from the npm registry, or null where there is none for this platform. */
export function findAnvil(): string | null {
  const cpu = process.arch === 'x64' ? 'amd64' : process.arch
  const name = `@foundry-rs/anvil-${process.platform}-${cpu}`
  try {
    // The platform's package is a dependency of the main one, and lies beside it or inside it.
    const require = createRequire(import.meta.url)
    const main = require.resolve('@foundry-rs/anvil/package.json')
    const folder = dirname(createRequire(main).resolve(`${name}/package.json`))
    const program = join(folder, 'bin', process.platform === 'win32' ? 'anvil.exe' : 'anvil')
    return existsSync(program) ? program : null
  } catch {
    return null
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address ? address.port : 0))
    })
  })
}

/** A real node in a process of its own, that mines only when it is told to. */
export class Anvil {
  readonly url: string
  private readonly child: ChildProcess
  private readonly onExit = () => this.child.kill('SIGKILL')
  /** Thousands of small calls: one open connection, and no more around it than needed. */
  private readonly agent = new Agent({ keepAlive: true })
  private id = 0

  private constructor(program: string, port: number) {
    this.url = `http://127.0.0.1:${port}`
    const args = ['--host', '127.0.0.1', '--port', String(port), '--chain-id', String(CHAIN_ID), '--silent']
    // cancun: newer forks make every block dearer. fifo: the order of transactions is that of their arrival.
    args.push(
      '--hardfork',
      'cancun',
      '--no-mining',
      '--order',
      'fifo',
      '--slots-in-an-epoch',
      '1',
      '--accounts',
      String(ACCOUNTS),
    )
    this.child = spawn(program, args, { stdio: 'ignore' })
    process.once('exit', this.onExit)
  }

  /** @throws {Error} when it does not answer within 20 seconds, or ends by itself three times */
  static async start(program: string): Promise<Anvil> {
    for (let tries = 1; ; tries++) {
      const node = new Anvil(program, await freePort())
      if (await node.ready()) return node
      await node.stop()
      if (tries === START_TRIES)
        throw new Error(`anvil did not start: ${tries} tries, exit code ${node.child.exitCode}`)
    }
  }

  private async ready(): Promise<boolean> {
    const until = performance.now() + READY_MS
    while (performance.now() < until && this.child.exitCode === null) {
      try {
        return (await this.call<string>('eth_chainId')) === hex(CHAIN_ID)
      } catch {
        await sleep(20)
      }
    }
    return false
  }

  async call<T>(method: string, ...params: unknown[]): Promise<T> {
    const [answer] = await this.batch<T>([[method, ...params]])
    return answer as T
  }

  /**
   * Several calls in one request. The node works on them at the same time: only for calls that do not depend on each other.
   * @throws {Error} when one of them is refused
   */
  async batch<T>(calls: readonly RpcRequest[]): Promise<T[]> {
    if (calls.length === 0) return []
    const body = calls.map(([method, ...params]) => ({ jsonrpc: '2.0', id: ++this.id, method, params }))
    const answers = JSON.parse(await this.post(JSON.stringify(body))) as Answer<T>[]
    const byId = new Map(answers.map((answer) => [answer.id, answer]))
    return body.map(({ id, method }) => {
      const answer = byId.get(id)
      if (!answer || answer.error) throw new Error(`anvil refused ${method}: ${answer?.error?.message ?? 'no answer'}`)
      return answer.result as T
    })
  }

  private post(body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      const options = { method: 'POST', agent: this.agent, headers: { 'content-type': 'application/json' } }
      const sent = request(this.url, options, (response) => text(response).then(resolve, reject))
      sent.once('error', reject)
      sent.end(body)
    })
  }

  async headNumber(): Promise<number> {
    return Number(await this.call<string>('eth_blockNumber'))
  }

  async block(number: number): Promise<NodeBlock> {
    return this.call<NodeBlock>('eth_getBlockByNumber', hex(number), false)
  }

  /** What the node itself says was emitted: the truth that everything is compared with. */
  async logs(address: string, topic: string, from: number, to: number): Promise<NodeLog[]> {
    return this.call<NodeLog[]>('eth_getLogs', { address, topics: [topic], fromBlock: hex(from), toBlock: hex(to) })
  }

  async stop(): Promise<void> {
    process.off('exit', this.onExit)
    this.agent.destroy()
    if (this.child.exitCode !== null || this.child.signalCode !== null) return
    const gone = new Promise((resolve) => this.child.once('exit', resolve))
    this.child.kill('SIGKILL')
    await gone
  }
}
