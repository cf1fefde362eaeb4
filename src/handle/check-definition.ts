import { address, blockNumber } from '../chain/block.ts'
import { TidemarkError } from '../errors.ts'
import { nearest } from '../util/nearest.ts'
import { parseEvent } from './abi.ts'
import { eventTopics } from './arguments.ts'
import { CHECKSUM_EXPECTED, hasWrongChecksum } from './checksum.ts'

type Fields = Readonly<Record<string, unknown>>

const KEYS = [
  'on',
  'events',
  'prepare',
  'handle',
  'final',
  'undo',
  'tables',
  'key',
  'onFailure',
  'handlerTimeout',
  'batch',
]
const BINDING_KEYS = ['address', 'startBlock', 'endBlock', 'at']
/** Bounds of P6: far above any real watcher. */
const MAX_EVENTS = 100
const MAX_ADDRESSES = 10_000

/** What was given, in a few words: plain words and numbers as they are, the rest by its type. */
function got(value: unknown): string {
  // A URL in the wrong place may hold a credential (P12).
  if (typeof value === 'string' && value.includes('://')) return 'a URL'
  if (typeof value === 'string')
    return value.length <= 60 ? JSON.stringify(value) : `text of ${value.length} characters`
  if (typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return String(value)
  if (value === null) return 'null'
  return Array.isArray(value) ? `a list of ${value.length}` : typeof value
}

function invalid(key: string, value: unknown, expected: string): TidemarkError {
  return new TidemarkError('WATCHER_INVALID', `\`${key}\` of a watcher is not right`, {
    values: { key, got: got(value), expected },
  })
}

function fieldsOf(key: string, value: unknown, expected: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields
  throw invalid(key, value, expected)
}

function checkKeys(where: string, fields: Fields, known: readonly string[]): void {
  for (const name of Object.keys(fields)) {
    if (known.includes(name)) continue
    const key = where === '' ? name : `${where}.${name}`
    throw new TidemarkError('WATCHER_INVALID', `A watcher has no key \`${key}\``, {
      values: { got: name.slice(0, 60), didYouMean: nearest(name, known), expected: known.join(', ') },
    })
  }
}

function checkWhole(key: string, value: unknown, from: number, to: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= from && (value as number) <= to) return
  throw invalid(key, value, `a whole number from ${from} to ${to}`)
}

function checkFunction(key: string, value: unknown): void {
  if (typeof value !== 'function') throw invalid(key, value, 'a function')
}

function isBlock(value: unknown): value is number | bigint {
  if (typeof value !== 'number' && typeof value !== 'bigint') return false
  try {
    return blockNumber(value) >= 0
  } catch {
    return false
  }
}

function isAddress(value: unknown): boolean {
  if (typeof value !== 'string') return false
  try {
    return address(value.replace(/^0X/, '0x')).length > 0
  } catch {
    return false
  }
}

function checkAddresses(key: string, value: unknown): void {
  const all: readonly unknown[] = Array.isArray(value) ? value : [value]
  if (all.length === 0 || all.length > MAX_ADDRESSES) {
    throw invalid(key, value, `1 to ${MAX_ADDRESSES} addresses; leave the key out to watch any contract`)
  }
  const wrong = all.findIndex((one) => !isAddress(one))
  if (wrong !== -1) throw invalid(key, all[wrong], '20 bytes of hex: 0x and 40 digits')
  const misspelt = all.find((one) => hasWrongChecksum(one as string))
  if (misspelt !== undefined) throw invalid(key, misspelt, CHECKSUM_EXPECTED)
}

function checkBlocks(key: string, { startBlock, endBlock }: Fields): void {
  if (startBlock !== 'now' && !isBlock(startBlock))
    throw invalid(`${key}.startBlock`, startBlock, "a block number, or 'now'")
  if (endBlock === undefined) return
  if (!isBlock(endBlock)) throw invalid(`${key}.endBlock`, endBlock, 'a block number')
  if (isBlock(startBlock) && endBlock < startBlock)
    throw invalid(`${key}.endBlock`, endBlock, 'the start block or a later one')
}

function checkAt(key: string, at: unknown): void {
  if (at === undefined || at === 'finalized' || at === 'safe' || at === 'latest') return
  const expected = "'finalized', 'safe', 'latest' or { confirmations: 1 or more }"
  const fields = fieldsOf(`${key}.at`, at, expected)
  checkKeys(`${key}.at`, fields, ['confirmations'])
  const { confirmations } = fields
  if (!Number.isSafeInteger(confirmations) || (confirmations as number) < 1)
    throw invalid(`${key}.at.confirmations`, confirmations, 'a whole number from 1')
}

function checkBinding(chain: string, value: unknown, undo: unknown): void {
  const key = `on.${chain}`
  const binding = fieldsOf(key, value, '{ address, startBlock, endBlock, at }')
  checkKeys(key, binding, BINDING_KEYS)
  if ('address' in binding) checkAddresses(`${key}.address`, binding.address)
  checkBlocks(key, binding)
  checkAt(key, binding.at)
  if ((binding.at === 'latest' || binding.at === 'safe') && undo === undefined) {
    throw new TidemarkError(
      'WATCHER_UNDO_MISSING',
      `The watcher acts on blocks at '${binding.at}', which may be orphaned, and does not say how its work is undone`,
      {
        values: { chain, at: binding.at },
      },
    )
  }
}

function checkOn(value: unknown, undo: unknown): Fields {
  const on = fieldsOf('on', value, '{ chainName: { startBlock, … } }')
  if (Object.keys(on).length === 0) throw invalid('on', value, 'at least one chain')
  for (const [chain, binding] of Object.entries(on)) checkBinding(chain, binding, undo)
  return on
}

/** Text that two events share only when they take the same logs in the same way. */
function checkEvent(name: string, value: unknown, everyAddress: boolean): string {
  const key = `events.${name}`
  if (!/^[\w$.-]{1,100}$/.test(name))
    throw invalid(key, name, 'a key of 1 to 100 letters, digits, `_`, `$`, `-` or `.`')
  const fields = fieldsOf(key, value, '{ event, args }')
  checkKeys(key, fields, ['event', 'args'])
  const event = parseEvent(name, fields.event)
  const topics = eventTopics(name, event, fields.args)
  if (topics.length === 0 && !everyAddress) {
    throw invalid(
      key,
      value,
      'an address on every chain, or `args`: without them an anonymous event fits any log of the chain',
    )
  }
  return JSON.stringify([event.fullSignature, topics])
}

function checkEvents(value: unknown, everyAddress: boolean): void {
  const events = fieldsOf('events', value, '{ Name: { event, args } }')
  const names = Object.keys(events)
  if (names.length === 0 || names.length > MAX_EVENTS)
    throw invalid('events', `${names.length} events`, `1 to ${MAX_EVENTS} events`)
  const seen = new Map<string, string>()
  for (const [name, event] of Object.entries(events)) {
    const filter = checkEvent(name, event, everyAddress)
    const other = seen.get(filter)
    if (other !== undefined)
      throw invalid(
        `events.${name}`,
        name,
        `another filter than \`${other}\`: one log is one event, so this one would never come`,
      )
    seen.set(filter, name)
  }
}

function checkTables(value: unknown): number {
  if (value === undefined) return 0
  const tables = fieldsOf('tables', value, '{ name: rows({ … }) }')
  for (const [name, table] of Object.entries(tables)) {
    const expected = 'a managed table, for example rows({ table, columns })'
    const { kind, open } = fieldsOf(`tables.${name}`, table, expected)
    if (typeof kind !== 'string' || typeof open !== 'function') throw invalid(`tables.${name}`, table, expected)
  }
  return Object.keys(tables).length
}

function checkUndo(undo: unknown, tables: number): void {
  if (undo === undefined || undo === 'irreversible' || typeof undo === 'function') return
  if (undo !== 'managed') throw invalid('undo', undo, "'managed', 'irreversible' or a function")
  if (tables === 0)
    throw invalid(
      'undo',
      undo,
      "managed tables under `tables`: 'managed' takes back what was written through them, and nothing else",
    )
}

function checkBatch(value: unknown): void {
  if (value === undefined) return
  const batch = fieldsOf('batch', value, '{ maxEvents, maxMs }')
  checkKeys('batch', batch, ['maxEvents', 'maxMs'])
  if (batch.maxEvents !== undefined) checkWhole('batch.maxEvents', batch.maxEvents, 1, 50_000)
  if (batch.maxMs !== undefined) checkWhole('batch.maxMs', batch.maxMs, 1, 60_000)
}

/**
 * Checks what a user gave to `watch`, types or not.
 * @throws {TidemarkError} `WATCHER_INVALID` with `got` and `expected`, `WATCHER_UNDO_MISSING`, or of the ABI
 */
export function checkDefinition(value: unknown): void {
  const definition = fieldsOf('watch', value, '{ on, events, handle }')
  checkKeys('', definition, KEYS)
  checkFunction('handle', definition.handle)
  for (const key of ['prepare', 'final', 'key']) {
    if (definition[key] !== undefined) checkFunction(key, definition[key])
  }
  checkUndo(definition.undo, checkTables(definition.tables))
  const on = checkOn(definition.on, definition.undo)
  checkEvents(
    definition.events,
    Object.values(on).every((binding) => (binding as Fields).address !== undefined),
  )
  if (definition.onFailure !== undefined && definition.onFailure !== 'halt')
    throw invalid('onFailure', definition.onFailure, "'halt'")
  if (definition.handlerTimeout !== undefined) checkWhole('handlerTimeout', definition.handlerTimeout, 1, 3_600_000)
  checkBatch(definition.batch)
}
