import { sha256 as sha256Pure } from '@noble/hashes/sha2.js'
import { keccak_256 } from '@noble/hashes/sha3.js'
import { bytesToHex, hexToBytes } from './bytes.ts'

interface NodeCrypto {
  hash(name: 'sha256', bytes: Uint8Array, encoding: 'hex'): string
}

// Node's own SHA-256, in one call, is about seven times faster; other runtimes take the pure one. Both give the same.
const proc = (globalThis as { process?: { getBuiltinModule?: (name: string) => unknown } }).process
const native = proc?.getBuiltinModule?.('node:crypto') as Partial<NodeCrypto> | undefined

/** SHA-256 as 64 lower-case hex digits, without `0x`. */
export function sha256Hex(bytes: Uint8Array): string {
  return native?.hash ? native.hash('sha256', bytes, 'hex') : bytesToHex(sha256Pure(bytes)).slice(2)
}

export function sha256(bytes: Uint8Array): Uint8Array {
  return hexToBytes(`0x${sha256Hex(bytes)}`)
}

/** Keccak-256, the chain's own hash: blooms, event signatures. */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return keccak_256(bytes)
}
