import type { FaultName, WireFaultName } from './faults.ts'

/** One call that reached the fake node. */
export interface RequestRecord {
  readonly method: string
  readonly params: readonly unknown[]
  /** Which try of this same request, from 1. */
  readonly attempt: number
  /** Which of the backends answered. */
  readonly backend: number
  /** The faults that hit the answer. */
  readonly faults: readonly FaultName[]
  /** False where the answer was an error object. */
  readonly answered: boolean
}

/** A range that `eth_getLogs` was asked for. */
export interface AskedRange {
  readonly from: number
  readonly to: number
}

/** Records kept; the older half goes when there are more. Counters go on counting. */
const MAX_RECORDS = 100_000

function rangeOf(params: readonly unknown[]): AskedRange | null {
  const { fromBlock, toBlock } = (params[0] ?? {}) as { fromBlock?: unknown; toBlock?: unknown }
  const number = (value: unknown) =>
    typeof value === 'string' && value.startsWith('0x') ? Number.parseInt(value, 16) : Number.NaN
  const range = { from: number(fromBlock), to: number(toBlock) }
  return Number.isNaN(range.from) || Number.isNaN(range.to) ? null : range
}

/** What a fake node was asked, and which faults it played. */
export class RequestLog {
  #records: RequestRecord[] = []
  #counters: Record<string, number> = {}
  #faults: Partial<Record<FaultName, number>> = {}

  add(record: RequestRecord): void {
    if (this.#records.length >= MAX_RECORDS) this.#records = this.#records.slice(MAX_RECORDS / 2)
    this.#records.push(record)
    this.#counters[record.method] = (this.#counters[record.method] ?? 0) + 1
    for (const fault of record.faults) this.#faults[fault] = (this.#faults[fault] ?? 0) + 1
  }

  /** A fault of the wire hit the last `calls` records. */
  wire(fault: WireFaultName, calls: number): void {
    this.#faults[fault] = (this.#faults[fault] ?? 0) + 1
    for (let i = Math.max(0, this.#records.length - calls); i < this.#records.length; i++) {
      const record = this.#records[i] as RequestRecord
      this.#records[i] = { ...record, faults: [...record.faults, fault] }
    }
  }

  get records(): readonly RequestRecord[] {
    return this.#records
  }

  /** Number of calls by method. */
  get counters(): Readonly<Record<string, number>> {
    return this.#counters
  }

  /** How often each fault hit. */
  get faults(): Readonly<Partial<Record<FaultName, number>>> {
    return this.#faults
  }

  /** The ranges of `eth_getLogs` in the order asked; those by block hash or tag are left out. */
  ranges(): readonly AskedRange[] {
    return this.#records
      .filter((record) => record.method === 'eth_getLogs')
      .map((record) => rangeOf(record.params))
      .filter((range) => range !== null)
  }

  clear(): void {
    this.#records = []
    this.#counters = {}
    this.#faults = {}
  }
}
