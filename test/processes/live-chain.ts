import {
  type FakeChain,
  type FakeNode,
  fakeChain,
  fakeNode,
  fakeRpc,
  type Minable,
  type Random,
  REINCLUDES,
  testAddress,
  transfer,
} from '../../src/testkit/index.ts'

export const TOKEN = testAddress('TOKEN')
export const CHAIN_ID = 4_242
/** Blocks until one is final; deeper than every reorg. */
export const FINALITY = 12
const DEEPEST = 6
const ACCOUNTS = ['ANN', 'BOB', 'CAT', 'DAN', 'EVE'].map(testAddress)

/** A chain behind a URL that grows, and is reorganised, by itself. */
export class LiveChain {
  readonly chain: FakeChain
  url = ''
  reorgs = 0
  private readonly node: FakeNode
  private readonly random: Random
  private timer: NodeJS.Timeout | null = null

  constructor(random: Random) {
    this.random = random
    this.chain = fakeChain({ chainId: CHAIN_ID, seed: random.seed })
    this.node = fakeNode(fakeRpc(this.chain))
  }

  async open(): Promise<void> {
    this.url = await this.node.listen()
  }

  async close(): Promise<void> {
    this.rest()
    await this.node.close()
  }

  /** Mines from now on, a block every so many milliseconds. */
  live(everyMs = 60): void {
    this.rest()
    this.timer = setInterval(() => this.turn(), everyMs)
  }

  /** Stands still. */
  rest(): void {
    if (this.timer) clearInterval(this.timer)
    this.timer = null
  }

  /** One block with a few transfers. */
  mine(): void {
    this.chain.mine(this.content())
  }

  private turn(): void {
    const { random, chain } = this
    if (chain.head().number <= DEEPEST || !random.chance(0.1)) return this.mine()
    chain.reorg(random.int(1, DEEPEST), { reinclude: random.pick(REINCLUDES), also: () => this.content() })
    this.reorgs += 1
  }

  private content(): Minable[] {
    const { random } = this
    return Array.from({ length: random.int(0, 4) }, () =>
      transfer(TOKEN, random.pick(ACCOUNTS), random.pick(ACCOUNTS), random.int(1, 1_000)),
    )
  }
}
