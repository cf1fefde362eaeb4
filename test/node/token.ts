import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import solc from 'solc'

const SOURCE = 'Token.sol'
/** keccak-256 of `Transfer(address,address,uint256)`. */
export const TRANSFER_TOPIC = '0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef'

/** The functions of the contract, each with a number of logs and a seed. */
export type Call = 'burst' | 'drift' | 'repeat' | 'approve'

export interface CompiledToken {
  /** What a transaction without `to` carries to create the contract. */
  readonly code: string
  /** Call data. */
  encode(call: Call, logs: number, seed: number): string
}

interface Output {
  readonly errors?: readonly { readonly severity: string; readonly formattedMessage: string }[]
  readonly contracts?: Readonly<Record<string, Readonly<Record<string, { readonly evm: Evm }>>>>
}

interface Evm {
  readonly bytecode: { readonly object: string }
  readonly methodIdentifiers: Readonly<Record<string, string>>
}

function word(n: number): string {
  return n.toString(16).padStart(64, '0')
}

/** Compiles `Token.sol`, for the same hard fork that the node runs. Takes about two seconds. */
export function compileToken(): CompiledToken {
  const settings = {
    evmVersion: 'cancun',
    optimizer: { enabled: true },
    outputSelection: { '*': { '*': ['evm.bytecode.object', 'evm.methodIdentifiers'] } },
  }
  const content = readFileSync(join(import.meta.dirname, SOURCE), 'utf8')
  const input = { language: 'Solidity', sources: { [SOURCE]: { content } }, settings }
  const output = JSON.parse(solc.compile(JSON.stringify(input))) as Output
  const evm = output.contracts?.[SOURCE]?.Token?.evm
  if (!evm)
    throw new Error(`${SOURCE} does not compile: ${output.errors?.map((one) => one.formattedMessage).join('\n')}`)
  return {
    code: `0x${evm.bytecode.object}`,
    encode: (call, logs, seed) => `0x${evm.methodIdentifiers[`${call}(uint256,uint256)`]}${word(logs)}${word(seed)}`,
  }
}
