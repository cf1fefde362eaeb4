import { type FakeChain, fakeChain } from '../../testkit/fake-chain.ts'
import { type FakeLog, testAddress, transfer } from '../../testkit/fake-log.ts'
import { Random } from '../../testkit/random.ts'
import { REINCLUDES } from '../../testkit/reorg-plan.ts'
import { TOKEN } from './watchers.ts'

/** Deepest reorg of the story. Finality is deeper, so none is a violation. */
const DEEPEST = 8
const FINALITY_DEPTH = 12
const ACCOUNTS = Array.from({ length: 12 }, (_, i) => testAddress(`account ${i}`))
const NOISE = testAddress('another token')

/** What happened on the chain in one beat of the story. */
export interface Beat {
  readonly did: 'block' | 'reorg' | 'back'
  readonly depth: number
  readonly words: string
}

/** The demo's chain: every block, reorg and flip follows from the seed. */
export class Story {
  readonly chain: FakeChain
  private readonly random: Random
  /** The branch that lost last, its turn to win back, or null. */
  private loser: { branch: string; depth: number } | null = null

  constructor(seed: string) {
    this.chain = fakeChain({
      chainId: 31_337,
      seed,
      blockTime: 2,
      safe: { depth: 6 },
      finalized: { depth: FINALITY_DEPTH },
    })
    this.random = new Random(seed).fork('story')
  }

  /** Mines one block, or replaces the newest ones. */
  next(): Beat {
    const head = this.chain.head().number
    if (this.loser && this.random.chance(0.3)) return this.winBack(this.loser)
    if (head > DEEPEST + 1 && this.random.chance(0.08)) return this.reorg()
    this.chain.mine(this.content())
    return { did: 'block', depth: 0, words: '' }
  }

  /** Enough empty blocks for everything before them to become final. */
  settle(): void {
    this.chain.mineEmpty(FINALITY_DEPTH + 4)
  }

  private content(): FakeLog[] {
    return Array.from({ length: this.random.int(0, 6) }, () => {
      const token = this.random.chance(0.2) ? NOISE : TOKEN
      return transfer(token, this.random.pick(ACCOUNTS), this.random.pick(ACCOUNTS), this.random.int(1, 1_000))
    })
  }

  private reorg(): Beat {
    const depth = this.random.int(1, DEEPEST)
    const reinclude = this.random.pick(REINCLUDES)
    const branch = this.chain.branch
    this.chain.reorg(depth, { reinclude, extraBlocks: 1, also: () => (this.random.chance(0.3) ? this.content() : []) })
    this.loser = depth <= 3 ? { branch, depth } : null
    return { did: 'reorg', depth, words: `transactions come back: ${reinclude}` }
  }

  /** A → B → A: the branch that lost grows and is canonical again. */
  private winBack(loser: { branch: string; depth: number }): Beat {
    this.loser = null
    const behind = this.chain.head().number - this.chain.tip(loser.branch).number
    const depth = this.chain.head().number - this.forkPoint(loser.branch)
    if (depth > DEEPEST) {
      this.chain.mine(this.content())
      return { did: 'block', depth: 0, words: '' }
    }
    for (let i = 0; i <= behind; i++) this.chain.mine(this.content(), { branch: loser.branch })
    this.chain.adopt(loser.branch)
    return { did: 'back', depth, words: 'the first branch wins back' }
  }

  private forkPoint(branch: string): number {
    let block = this.chain.tip(branch)
    while (this.chain.blockByNumber(block.number) !== block) {
      const parent = this.chain.blockByHash(block.parentHash)
      if (!parent) break
      block = parent
    }
    return block.number
  }
}
