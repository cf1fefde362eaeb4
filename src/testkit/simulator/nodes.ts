import { type FakeRpc, fakeRpc } from '../fake-rpc.ts'
import type { FaultSettings } from '../fault-plan.ts'
import type { TestWorld } from '../test-world.ts'
import type { SwarmOptions } from './options.ts'
import type { SimChain } from './sim-chain.ts'

/** Switches every fault of these settings off. */
function off(settings: FaultSettings): FaultSettings {
  return Object.fromEntries(Object.keys(settings).map((name) => [name, false]))
}

/** Another block 0 is no fault as long as none was seen: nobody could tell which one is right. */
function unknownChain(settings: FaultSettings): FaultSettings {
  return { ...settings, otherGenesis: false }
}

/** The nodes of a run, and which of them play their faults now. */
export class Nodes {
  readonly all: readonly FakeRpc[]
  readonly #faults: readonly FaultSettings[]
  readonly #unwell: boolean[]
  #chainIsKnown = false

  constructor(seed: number | string, { faults, habits }: SwarmOptions, { chain }: SimChain, world: TestWorld) {
    this.#faults = faults
    this.#unwell = faults.map(() => true)
    this.all = faults.map((of, i) =>
      fakeRpc(chain, { ...habits[i], seed, label: `rpc[${i}]`, faults: unknownChain(of), world }),
    )
  }

  set(node: number, on: boolean): void {
    this.#unwell[node] = on
    this.#apply()
  }

  /** A chain is known by what was seen of it first: from then on another one can be recognised. */
  learn(isKnown: () => boolean): void {
    if (this.#chainIsKnown || !isKnown()) return
    this.#chainIsKnown = true
    this.#apply()
  }

  stop(): void {
    this.#unwell.fill(false)
    for (const rpc of this.all) rpc.stopFaults()
  }

  #apply(): void {
    for (const [i, faults] of this.#faults.entries()) {
      const now = this.#unwell[i] ? faults : off(faults)
      this.all[i]?.setFaults(this.#chainIsKnown ? now : unknownChain(now))
    }
  }
}
