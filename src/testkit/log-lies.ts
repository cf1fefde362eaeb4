import type { RpcCall } from '../chain/rpc.ts'
import type { ChainView } from './chain-view.ts'
import type { FaultContext } from './faults.ts'
import { type Json, type JsonObject, logToJson, quantity } from './rpc-format.ts'

/** How many blocks from the head down a node may not have indexed yet. */
const FRESH_BLOCKS = 3

type Logs = readonly JsonObject[]
type Lie = (logs: Logs, context: FaultContext) => Json

const numberOf = (value: Json | undefined) => Number.parseInt(String(value).slice(2), 16)

export function isLogList(call: RpcCall, result: Json): result is Logs {
  return call.method === 'eth_getLogs' && Array.isArray(result)
}

/** Whether a log, receipt or block is so new that a node may still show it empty. */
export function isFresh(item: { readonly blockNumber?: Json }, view: ChainView): boolean {
  return numberOf(item.blockNumber) > view.head.number - FRESH_BLOCKS
}

export function withoutFresh(logs: Logs, view: ChainView): Logs {
  return logs.filter((log) => !isFresh(log, view))
}

/** Another hash of the same length: its last two hex digits are turned over. */
function altered(hash: Json | undefined): string {
  const text = String(hash)
  return text.slice(0, -2) + (Number.parseInt(text.slice(-2), 16) ^ 0xff).toString(16).padStart(2, '0')
}

const truncated: Lie = (logs, { random }) => logs.slice(0, random.int(0, Math.max(0, logs.length - 1)))

const foreignHash: Lie = (logs, { random, abandoned }) => {
  if (logs.length === 0) return logs
  const height = random.pick(logs).blockNumber
  const other = abandoned.blockByNumber(numberOf(height))?.hash
  return logs.map((log) => {
    if (log.blockNumber !== height) return log
    return { ...log, blockHash: other === undefined || other === log.blockHash ? altered(log.blockHash) : other }
  })
}

/** Logs of the abandoned branch at the answer's heights; made up from live ones where no reorg has happened yet. */
const removed: Lie = (logs, { abandoned, view, random }) => {
  const heights = new Set(logs.map((log) => numberOf(log.blockNumber)))
  const orphans = [...heights].flatMap((height) => {
    const block = abandoned.blockByNumber(height)
    return block && !view.holds(block) ? block.logs.map((log) => logToJson(log, true)) : []
  })
  const made = logs.slice(0, 3).map((log) => ({ ...log, blockHash: altered(log.blockHash), removed: true }))
  const all: JsonObject[] = [...logs]
  for (const entry of orphans.length > 0 ? orphans : made) all.splice(random.int(0, all.length), 0, entry)
  return all
}

const repeated: Lie = (logs, { random }) => {
  const again = logs.filter(() => random.chance(0.3))
  return logs.flatMap((log) => (again.includes(log) ? [log, log] : [log])).concat(logs.slice(0, 1))
}

const unordered: Lie = (logs, { random }) => (random.chance(0.5) ? [...logs].reverse() : random.shuffle(logs))

/** A made-up log fits the filter, since it is the copy of a real one in another transaction. */
const phantom: Lie = (logs, { random }) => {
  if (logs.length === 0) return logs
  const model = random.pick(logs)
  const at = logs.indexOf(model) + 1
  const made = {
    ...model,
    transactionHash: altered(model.transactionHash),
    transactionIndex: quantity(numberOf(model.transactionIndex) + 1),
    logIndex: quantity(numberOf(model.logIndex) + 1_000),
  }
  return [...logs.slice(0, at), made, ...logs.slice(at)]
}

/** The ways in which a list of logs can be wrong without looking wrong. */
export const falsifyLogs = { truncated, foreignHash, removed, repeated, unordered, phantom } as const
