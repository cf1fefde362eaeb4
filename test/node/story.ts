import type { Random } from '../../src/testkit/random.ts'
import { type Anvil, hex, type NodeLog, type RpcRequest } from './anvil.ts'
import { type Call, type CompiledToken, TRANSFER_TOPIC } from './token.ts'

/** Logs of the followed token in each block that is mined with content. */
export const LOGS_A_BLOCK = 20
/** Senders of ordinary blocks take turns; the others send only what a reorg adds. */
const ORDINARY = 140
const GAS = hex(1_000_000)
/** Far above the base fee, which only falls on a chain of nearly empty blocks. */
const GAS_PRICE = hex(10_000_000_000)

interface Transaction {
  readonly hash: string
  readonly from: string
  readonly nonce: string
  readonly raw: string
  /** Block within the reorg, 0 is the lowest. */
  readonly offset: number
}

/** Where a transaction's logs stood, and what they said. */
interface Place {
  readonly block: string
  readonly transactionIndex: string
  readonly logIndex: string
  readonly content: string
}

/** What the reorgs did to transactions, counted from the node's own answers before and after. */
export interface Tally {
  reorgs: number
  deepest: number
  /** The same transaction in a block of another height. */
  otherBlock: number
  /** The same height, but another transaction or log index. */
  otherIndex: number
  /** The same transaction with other logs. */
  otherContent: number
  /** Not mined again by the reorg itself. */
  dropped: number
  /** Dropped, and mined later by an ordinary block. */
  late: number
  /** In blocks that are no longer on the chain. */
  orphanedLogs: number
}

type Fate = 'same' | 'elsewhere' | 'late' | 'dropped' | 'replaced'
const FATES: readonly Fate[] = ['same', 'same', 'elsewhere', 'elsewhere', 'late', 'dropped', 'replaced']
const TRANSFERS: readonly Call[] = ['burst', 'drift', 'drift', 'repeat']

function placesOf(logs: readonly NodeLog[]): Map<string, Place> {
  const places = new Map<string, Place>()
  for (const log of logs) {
    const { blockNumber: block, transactionIndex, logIndex } = log
    const before = places.get(log.transactionHash)
    const said = [...log.topics, log.data].join()
    places.set(
      log.transactionHash,
      before
        ? { ...before, content: `${before.content};${said}` }
        : { block, transactionIndex, logIndex, content: said },
    )
  }
  return places
}

/** The chain's side of the test: blocks of 20 logs, and reorgs that move their transactions about. */
export class Story {
  readonly tally: Tally = {
    reorgs: 0,
    deepest: 0,
    otherBlock: 0,
    otherIndex: 0,
    otherContent: 0,
    dropped: 0,
    late: 0,
    orphanedLogs: 0,
  }
  /** Hashes of all blocks with logs that were orphaned. */
  readonly orphans = new Set<string>()
  readonly token: string
  private readonly node: Anvil
  private readonly code: CompiledToken
  private readonly random: Random
  private readonly other: string
  private readonly accounts: readonly string[]
  private turn = 0
  private seed = 0
  /** Dropped transactions that wait to be mined after all. */
  private waiting: Transaction[] = []

  private constructor(
    node: Anvil,
    code: CompiledToken,
    random: Random,
    accounts: readonly string[],
    tokens: readonly string[],
  ) {
    this.node = node
    this.code = code
    this.random = random
    this.accounts = accounts
    this.token = tokens[0] as string
    this.other = tokens[1] as string
  }

  /** Puts two tokens on the chain: the one that is followed, and one that is not. Blocks 1 and 2. */
  static async begin(node: Anvil, code: CompiledToken, random: Random): Promise<Story> {
    const accounts = await node.call<string[]>('eth_accounts')
    const tokens: string[] = []
    for (let i = 0; i < 2; i++) {
      const hash = await node.call('eth_sendTransaction', {
        from: accounts[0],
        data: code.code,
        gas: hex(3_000_000),
        gasPrice: GAS_PRICE,
      })
      await node.call('evm_mine')
      const receipt = await node.call<{ contractAddress: string }>('eth_getTransactionReceipt', hash)
      tokens.push(receipt.contractAddress)
    }
    return new Story(node, code, random, accounts, tokens)
  }

  /** A block with 20 logs of the token in two to four transactions, sometimes others, and what was dropped before. */
  async mine(): Promise<void> {
    const sends: RpcRequest[] = this.content().map((transaction) => ['eth_sendTransaction', transaction])
    const late = this.waiting.splice(0, this.random.int(0, 6))
    const resends: RpcRequest[] = late.map(({ raw }) => ['eth_sendRawTransaction', raw])
    this.tally.late += late.length
    // Each from an account of its own, so they may arrive in any order.
    await this.node.batch(this.random.shuffle([...sends, ...resends]))
    await this.node.call('evm_mine')
  }

  async mineEmpty(blocks: number): Promise<void> {
    await this.node.call('anvil_mine', hex(blocks))
  }

  private content(): Record<string, string>[] {
    const cuts = Array.from({ length: this.random.int(1, 3) }, () => this.random.int(1, LOGS_A_BLOCK - 1))
    const edges = [...new Set([0, ...cuts, LOGS_A_BLOCK])].sort((a, b) => a - b)
    const parts = edges
      .slice(1)
      .map((edge, i) => this.send(this.token, this.random.pick(TRANSFERS), edge - (edges[i] ?? 0)))
    if (this.random.chance(0.2)) parts.push(this.send(this.token, 'approve', 3))
    if (this.random.chance(0.2)) parts.push(this.send(this.other, 'burst', 3))
    return parts
  }

  private send(to: string, call: Call, logs: number): Record<string, string> {
    const from = this.accounts[this.turn++ % ORDINARY] as string
    return { from, ...this.call(to, call, logs) }
  }

  private call(to: string, call: Call, logs: number): Record<string, string> {
    this.seed++
    return { to, data: this.code.encode(call, logs, this.seed), gas: GAS, gasPrice: GAS_PRICE }
  }

  /** Replaces the newest `depth` blocks. The head keeps its height. */
  async reorg(depth: number): Promise<void> {
    const head = await this.node.headNumber()
    const first = head - depth + 1
    const before = await this.node.logs(this.token, TRANSFER_TOPIC, first, head)
    const old = await this.transactions(first, depth)
    const mined = await this.fates(old, depth)
    await this.node.call('anvil_reorg', depth, mined)
    const after = await this.node.logs(this.token, TRANSFER_TOPIC, first, head)
    this.count(depth, before, after)
  }

  /** Orphans blocks and puts nothing in their place but empty ones. */
  async wipe(depth: number): Promise<void> {
    await this.node.call('anvil_reorg', depth, [])
  }

  /** The chain as it is now, to come back to. */
  async keep(): Promise<unknown> {
    return this.node.call('anvil_dumpState', false)
  }

  /** Puts a kept chain in the place of the one that is: the very same blocks. */
  async restore(kept: unknown): Promise<void> {
    await this.node.call('anvil_loadState', kept)
    this.waiting = []
  }

  private async transactions(first: number, depth: number): Promise<Transaction[]> {
    const offsets = Array.from({ length: depth }, (_, i) => i)
    const blocks = await this.node.batch<{ transactions: Omit<Transaction, 'raw' | 'offset'>[] }>(
      offsets.map((i) => ['eth_getBlockByNumber', hex(first + i), true]),
    )
    const found = blocks.flatMap(({ transactions }, offset) =>
      transactions.map(({ hash, from, nonce }) => ({ hash, from, nonce, offset })),
    )
    const raws = await this.node.batch<string>(found.map(({ hash }) => ['eth_getRawTransactionByHash', hash]))
    return found.map((one, i) => ({ ...one, raw: raws[i] as string }))
  }

  /** What the new blocks hold: the old transactions in other places, other ones, and newcomers in front of them. */
  private async fates(old: readonly Transaction[], depth: number): Promise<(readonly [string, number])[]> {
    const { random } = this
    const placed: (readonly [string, number])[] = []
    for (const transaction of random.chance(0.5) ? random.shuffle(old) : old) {
      const fate = random.pick(FATES)
      if (fate === 'same') placed.push([transaction.raw, transaction.offset])
      if (fate === 'elsewhere') placed.push([transaction.raw, random.int(0, depth - 1)])
      if (fate === 'late') this.waiting.push(transaction)
      if (fate === 'replaced') placed.push([await this.replacement(transaction), transaction.offset])
    }
    // At least one newcomer: with nothing changed, a replaced block would be the same block.
    const newcomers = await this.newcomers(random.int(1, 3))
    return [...newcomers.map((raw) => [raw, random.int(0, depth - 1)] as const), ...placed]
  }

  /** Another transaction under the nonce of the old one. */
  private async replacement({ from, nonce }: Transaction): Promise<string> {
    return this.node.call('eth_signTransaction', {
      from,
      nonce,
      ...this.call(this.token, 'burst', this.random.int(1, 8)),
    })
  }

  private async newcomers(count: number): Promise<string[]> {
    const senders = this.random.shuffle(this.accounts.slice(ORDINARY)).slice(0, count)
    const nonces = await this.node.batch<string>(senders.map((from) => ['eth_getTransactionCount', from, 'latest']))
    return this.node.batch(
      senders.map((from, i) => {
        const call = this.call(this.random.pick([this.token, this.other]), 'burst', this.random.int(1, 5))
        return ['eth_signTransaction', { from, nonce: nonces[i], ...call }]
      }),
    )
  }

  private count(depth: number, before: readonly NodeLog[], after: readonly NodeLog[]): void {
    const { tally } = this
    tally.reorgs++
    tally.deepest = Math.max(tally.deepest, depth)
    const standing = new Set(after.map((log) => log.blockHash))
    const gone = before.filter((log) => !standing.has(log.blockHash))
    tally.orphanedLogs += gone.length
    for (const log of gone) this.orphans.add(log.blockHash)
    const now = placesOf(after)
    for (const [hash, place] of placesOf(before)) this.compare(place, now.get(hash))
  }

  private compare(was: Place, is: Place | undefined): void {
    const { tally } = this
    if (!is) tally.dropped++
    else if (is.block !== was.block) tally.otherBlock++
    else if (is.transactionIndex !== was.transactionIndex || is.logIndex !== was.logIndex) tally.otherIndex++
    if (is && is.content !== was.content) tally.otherContent++
  }
}
